-- REFUND and RESET: what takes back or forgets what counters say.
local words, counter, decide = need('words'), need('counter'), need('decide')
local undo = {}

function undo.refund(keys, call)
	call.cost = words.number(call, 'cost', 0, 4294967295)
	words.rest(call, keys)
	return undo.refunded(call)
end

-- Refunds a call that was read.
function undo.refunded(call)
	local counters, seen = counter.load(call), {}
	for _, item in ipairs(call.items) do
		local c = item.counter
		if c and (c.ends or c.charged) and not seen[c] then
			seen[c] = true
			local way = item.limit.way
			local v = way.view(item.limit, c.s, call.now, call.us)
			v.who = item.member
			if call.cost > 0 and way.refund(item.limit, c.s, v, call.cost) then
				c.charged, c.changed = true, true
			end
		end
	end
	counter.save(counters, call)
	call.cost = 0
	decide.try_all(call)
	return decide.reply(call)
end

-- Forgets a counter; whether there was one: a state, or something held that has not ended.
local function forget(c)
	if not c.ends and not c.raw_holds then
		return false
	end
	local was = c.ends or c.charged or c.holds and c.holds[1]
	local gone = {c.field, '!' .. c.field}
	local way = c.limit.way
	if way.changes and c.s and not c.damaged then
		for n = c.s.first, c.s.tail - 1 do
			gone[#gone + 1] = way.chunk_field(c.s, n)
		end
	end
	need('several').delete(c.key, gone)
	return was and true or false
end

function undo.reset(keys, call)
	call.each = nil
	words.rest(call, keys)
	local forgotten = 0
	for _, c in ipairs(counter.load(call, true)) do
		forgotten = forgotten + (forget(c) and 1 or 0)
	end
	return forgotten
end

return undo
