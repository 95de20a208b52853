-- The commands: what each reads, and what answers it. A refusal is caught here, and answered as an error of Redis.
local words, decide = need('words'), need('decide')
local commands = {}
local MOST = 4294967295
local TTL_MOST = 60000

local function decision(op, id, ttl)
	return function(keys, reader)
		local call = {}
		call.cost = words.number(reader, 'cost', 0, MOST)
		call.id = id and words.id(reader)
		call.ttl = ttl and words.number(reader, 'ttl_ms', 1, TTL_MOST)
		call.clock = words.clock(reader)
		call.each = words.each(reader)
		call.items = words.items(reader, keys)
		return (op(call))
	end
end

commands.check = decision(decide.check)
commands.peek = decision(decide.peek)
commands.refund = decision(decide.refund)
commands.hold = decision(decide.hold, true, true)
commands.confirm = decision(decide.confirm, true)

function commands.reset(keys, reader)
	local call = {}
	call.clock = words.clock(reader)
	call.items = words.items(reader, keys)
	return decide.reset(call)
end

function commands.cancel(keys, reader)
	local call = {}
	call.id = words.id(reader)
	call.clock = words.clock(reader)
	call.items = words.items(reader, keys)
	return decide.cancel(call)
end

function commands.lease(keys, reader)
	local call = {}
	call.id = words.id(reader)
	call.ttl = words.number(reader, 'ttl_ms', 1, TTL_MOST)
	call.spent = words.number(reader, 'spent', 0, MOST)
	call.want = words.number(reader, 'want', 0, MOST)
	call.clock = words.clock(reader)
	call.items = words.items(reader, keys)
	if #call.items ~= 1 or call.items[1].observed then
		need('errors').raise('ERR a lease is of one limit, neither OBSERVED nor TRIED')
	end
	return decide.lease(call)
end

function commands.throttle(keys, reader)
	return need('throttle')(keys, reader)
end

function commands.inspect(keys, reader)
	return need('inspect')(keys, reader)
end

function commands.version()
	return VERSION
end

-- Runs a command by its word; `keys` and `args` as Redis hands them over, `at` where the command's arguments begin.
function commands.run(word, keys, args, at)
	local ok, reply = pcall(function()
		if #keys == 0 and word ~= 'version' then
			need('errors').raise('ERR no key: expected the keys of the limits, and their number in front of them')
		end
		return commands[word](keys, {args = args, at = at})
	end)
	if ok then
		return reply
	elseif type(reply) == 'table' and reply.sluice then
		return {err = reply.sluice}
	end
	error(reply, 0)
end

return commands
