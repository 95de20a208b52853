-- REFUND and RESET: what takes back or forgets what counters say.
local words, counter, decide = need('words'), need('counter'), need('decide')
local undo = {}

-- REFUND cost items
function undo.refund(call, keys)
	words.items(call, keys)
	local counters, seen = counter.load(call), {}
	for _, item in ipairs(call.items) do
		local c, limit = item.counter, item.limit
		if c and c.raw and call.cost > 0 and not seen[c] then
			seen[c] = true
			local v = counter.view(c, limit, call)
			v.who = item.member
			local raw = limit.steps.refund(limit, v, call.cost, c.raw)
			if raw then
				c.raw, c.changed = raw, true
			end
		end
	end
	counter.save(call, counters)
	call.cost = 0
	decide.try_all(call)
	return decide.reply(call)
end

-- Forgets a counter, damaged or not; whether there was one: a state, or something held that has not ended.
local function forget(c, call)
	local steps, gone = c.limit.steps, {c.field, '!' .. c.field}
	if not c.stored and not c.stored_holds then
		return false
	elseif c.stored_holds then
		pcall(need('holds').open, c, call.now)
	end
	if steps.changes then
		steps.changes(c, c.stored, false, {}, 0, gone)
	end
	counter.delete(c.key, gone)
	return c.raw or c.holds and c.holds[1]
end

-- RESET items: how many counters were forgotten.
function undo.reset(call, keys)
	words.items(call, keys)
	local forgotten = 0
	for _, c in ipairs(counter.load(call, true)) do
		forgotten = forgotten + (forget(c, call) and 1 or 0)
	end
	return forgotten
end

return undo
