-- The commands: what each reads, and what answers it. A refusal is caught here, and answered as an error of Redis.
-- Checks and peeks, which nearly all calls are, go straight; what the others need is made when one of them comes.
local words, decide = need('words'), need('decide')

-- A call reads its words itself: the next of `args` stands `at`; `full`, `outgrown`: room.lua.
local function serve(word, keys, args, at, full, outgrown)
	if not keys[1] and word ~= 'version' then
		need('errors').raise('ERR no key: expected the keys of the limits, and their number in front of them')
	end
	local call = {word = word:upper(), args = args, at = at, cost = 0, now = 0, us = 0, set = false, each = false,
		items = false, full = full, outgrown = outgrown}
	if word == 'check' or word == 'peek' then
		call.cost = words.number(call, 'cost', 0, 4294967295)
		call.takes = word == 'check' and {MEMBER = 1, UPTO = 1, ID = 1} or
			{MEMBER = 1, UPTO = 1, BESIDE = 1}
		words.rest(call, keys)
		if call.upto or call.id then
			return need('asked')(call, word == 'check')
		end
		return decide.check(call, word == 'check')
	elseif word == 'version' then
		return VERSION
	elseif word == 'throttle' or word == 'inspect' then
		return need(word)(keys, call)
	elseif word == 'acquire' or word == 'release' or word == 'renew' or word == 'holders' then
		call.takes = word == 'acquire' and {MEMBER = 1, ID = 1}
		return need('leasing')[word](keys, call)
	elseif word == 'refund' or word == 'reset' then
		call.takes = word == 'refund' and {MEMBER = 1}
		return need('undo')[word](keys, call)
	end
	if word == 'reserve' or word == 'commit' then
		need('errors').raise('ERR reservations need the module or a server: they correct what a script does not keep')
	end
	return need('holding')[word](keys, call)
end

-- Runs a command by its word; `keys` and `args` as Redis hands them over, `at` where the command's arguments begin.
local function run(word, keys, args, at)
	local ok, reply = pcall(serve, word, keys, args, at)
	if not ok and type(reply) == 'table' and not reply.sluice then
		ok, reply = need('room').again(serve, reply, word, keys, args, at)
	end
	if ok then
		return reply
	elseif type(reply) == 'table' and reply.sluice then
		return {err = reply.sluice}
	end
	error(reply, 0)
end

return {run = run}
