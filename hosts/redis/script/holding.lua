-- HOLD, CONFIRM, CANCEL and LEASE: cost that is taken out of what others may have before it is charged, or dropped.
local words, counter, decide, holds = need('words'), need('counter'), need('decide'), need('holds')
local holding = {}
local MOST = 4294967295

-- Takes the call's own holds out of its counters; what was taken, to be put back.
function holding.without_own(counters, id, lease)
	local own = {}
	for _, c in ipairs(counters) do
		own[c] = holds.take(c, id, lease)
	end
	return own
end

local function put_back(own)
	for c, one in pairs(own) do
		holds.put(c, one)
	end
end

-- A counter that has no place for one more denies: in a moment it has.
local function have_places(call)
	local all = true
	for _, item in ipairs(call.items) do
		local c = item.counter
		if c and item.admits and not item.tried and c.holds and #c.holds >= holds.most then
			item.admits, item.full, all = false, true, false
		end
	end
	return all
end

-- The most that others hold, for a while only, of the counter of an enforced item.
local function elsewhere(call)
	local most = 0
	for _, item in ipairs(call.items) do
		if item.counter and not item.observed then
			most = math.max(most, item.counter.held - item.counter.leased)
		end
	end
	return math.min(most, MOST)
end

-- The reply to a HOLD; with UPTO also how much of the cost is held, and how much others hold.
local function held(call, granted, others)
	if not call.upto then
		return decide.reply(call)
	end
	local reply = decide.reply(call, {granted, 0, others}, granted, others)
	local decides = not call.each and call.items[reply[7] + 1]
	if decides and decides.short then
		reply[1] = 2 * need('room').bound
	end
	return reply
end

-- HOLD cost id ttl_ms items
function holding.hold(call, keys)
	local id, ttl = words.id(call), words.number(call, 'ttl_ms', 1, 60000)
	words.items(call, keys)
	local counters = counter.load(call)
	local own, others = holding.without_own(counters, id, false), elsewhere(call)
	local allowed = decide.try_upto(call)
	local places = not allowed or have_places(call)
	if not allowed or call.cost == 0 or not places then
		put_back(own)
		return held(call, 0, places and others or MOST)
	end
	for _, item in ipairs(call.items) do
		local c = item.counter
		if c and item.admits and not item.tried and not c.taken then
			c.limit, c.taken, c.changed = item.limit, item, true
			holds.put(c, {ends = item.v.t + ttl, cost = call.cost, lease = false, id = id})
		end
	end
	counter.save(call, counters)
	return held(call, call.cost, others)
end

-- CONFIRM cost id items. What is not charged of the call's own holds is let go; with KEEP it stays held, but no figure
-- of the answer counts it.
function holding.confirm(call, keys)
	local id = words.id(call)
	words.items(call, keys)
	local counters, rest = counter.load(call), {}
	local own = holding.without_own(counters, id, false)
	if not decide.try_all(call) then
		if not call.keep then
			put_back(own)
		end
		return decide.reply(call)
	elseif call.cost > 0 then
		decide.charge(call)
	end
	for c, one in pairs(own) do
		c.changed = true
		one.cost = one.cost - (c.taken and call.cost or 0)
		rest[c] = call.keep and one.cost > 0 and one or nil
	end
	put_back(rest)
	counter.save(call, counters)
	holding.without_own(counters, id, false)
	return decide.reply(call)
end

-- CANCEL id items: how many holds were dropped.
function holding.cancel(call, keys)
	local id, dropped = words.id(call), 0
	words.items(call, keys)
	local counters = counter.load(call)
	for c in pairs(holding.without_own(counters, id, false)) do
		c.changed, dropped = true, dropped + 1
	end
	counter.save(call, counters)
	return dropped
end

-- LEASE id ttl_ms spent want item, a front's slice: charges what it spent, lets go of the rest, holds what it wants
-- anew.
function holding.lease(call, keys)
	local id, ttl = words.id(call), words.number(call, 'ttl_ms', 1, 60000)
	local spent, granted = words.number(call, 'spent', 0, MOST), words.number(call, 'want', 0, MOST)
	words.items(call, keys)
	local item = call.items[1]
	if call.items[2] or item.observed then
		need('errors').raise('a lease is of one limit, neither OBSERVED nor TRIED')
	end
	local limit, counters, c = item.limit, counter.load(call), item.counter
	if c then
		local own = holds.take(c, id, true)
		local v = counter.view(c, limit, call)
		spent = own and math.min(spent, own.cost) or 0
		item.v, c.changed = v, own ~= nil
		if spent > 0 then
			counter.charge(c, limit, v, spent)
			v = counter.view(c, limit, call)
		end
		granted = limit.quota > 0 and math.min(granted, MOST, math.max(0, v.room - c.held)) or 0
		if c.holds and #c.holds >= holds.most or (call.full or call.outgrown) and need('room').lacks(item, call) then
			granted = 0
		end
		if granted > 0 then
			c.limit, c.changed = limit, true
			holds.put(c, {ends = v.t + ttl, cost = granted, lease = true, id = id})
		end
		counter.save(call, counters)
	end
	call.cost = 1
	decide.try(item, call)
	local allowed, room, retry, reset, delay, next, bound = decide.answer(item, call, true)
	return {granted, allowed + 2 * bound, limit.capacity, room, retry, reset, delay, next}
end

return holding
