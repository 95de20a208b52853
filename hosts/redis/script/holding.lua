-- HOLD, CONFIRM, CANCEL and LEASE: cost that is taken out of what others may have before it is charged, or dropped.
local words, counter, decide = need('words'), need('counter'), need('decide')
local holds, errors = need('holds'), need('errors')
local holding = {}
local MOST = 4294967295
local TTL_MOST = 60000

-- Reads the id of a hold, as it is kept: 16 digits.
function holding.read_id(call)
	local text = call.args[call.at]
	if not text or #text < 1 or #text > 16 or not text:find('^%x+$') then
		errors.raise('ERR id ' .. (text and errors.shown(text) or 'is missing') .. ': expected 1 to 16 hex digits')
	end
	call.at = call.at + 1
	return ('0'):rep(16 - #text) .. text:lower()
end

-- Takes the call's own holds out of its counters; what was taken, to be put back.
local function without_own(counters, id, lease)
	local own = {}
	for _, c in ipairs(counters) do
		local one = c.holds and holds.remove(c.holds, id, lease)
		if one then
			own[c] = one
			c.held, c.leased = c.held - one.cost, c.leased - (lease and one.cost or 0)
		end
	end
	return own
end

local function put(c, one)
	c.holds = c.holds or {}
	holds.insert(c.holds, one)
	c.held, c.leased = c.held + one.cost, c.leased + (one.lease and one.cost or 0)
end

-- What a PEEK beside a front's own hold decides on.
function holding.leave_out(counters, id)
	without_own(counters, id, false)
end

local function put_back(own)
	for c, one in pairs(own) do
		put(c, one)
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
	local reply = decide.reply(call)
	if call.upto and call.each then
		reply[#reply + 1] = {granted, 0, others}
	elseif call.upto then
		local decides = call.items[reply[7] + 1]
		if decides and decides.short then
			reply[1] = 2 * need('room').bound
		end
		reply[8], reply[9] = granted, others
	end
	return reply
end

function holding.hold(keys, call)
	call.cost = words.number(call, 'cost', 0, MOST)
	local id = holding.read_id(call)
	local ttl = words.number(call, 'ttl_ms', 1, TTL_MOST)
	call.takes = {UPTO = 1}
	words.rest(call, keys)
	local counters = counter.load(call)
	local own, others = without_own(counters, id, false), elsewhere(call)
	local allowed = decide.try_all(call)
	if call.upto and call.cost > 0 then
		call.cost = math.max(1, need('largest')(call))
		allowed = decide.try_all(call)
	end
	local places = not allowed or have_places(call)
	if not allowed or call.cost == 0 or not places then
		put_back(own)
		return held(call, 0, places and others or MOST)
	end
	for _, item in ipairs(call.items) do
		local c = item.counter
		if c and item.admits and not item.tried and not c.taken then
			c.limit, c.taken = item.limit, item
			put(c, {ends = math.max(call.now, c.s.last) + ttl, cost = call.cost, lease = false, id = id})
		end
	end
	counter.save(counters, call)
	return held(call, call.cost, others)
end

-- What is not charged of the call's own holds: with KEEP it stays, but no figure of the call counts it.
local function rest_of(call, own)
	local rest = {}
	for c, one in pairs(own) do
		c.changed = true
		one.cost = one.cost - (c.taken and call.cost or 0)
		if call.keep and one.cost > 0 then
			rest[c] = one
		end
	end
	return rest
end

function holding.confirm(keys, call)
	call.cost = words.number(call, 'cost', 0, MOST)
	local id = holding.read_id(call)
	call.takes = {KEEP = 1}
	words.rest(call, keys)
	local counters = counter.load(call)
	local own = without_own(counters, id, false)
	if not decide.try_all(call) then
		if not call.keep then
			put_back(own)
		end
		return decide.reply(call)
	end
	if call.cost > 0 then
		decide.charge(call)
	end
	put_back(rest_of(call, own))
	counter.save(counters, call)
	if call.keep then
		without_own(counters, id, false)
	end
	return decide.reply(call)
end

function holding.cancel(keys, call)
	local id = holding.read_id(call)
	call.each = nil
	words.rest(call, keys)
	local counters, dropped = counter.load(call), 0
	for c in pairs(without_own(counters, id, false)) do
		c.changed = true
		dropped = dropped + 1
	end
	counter.save(counters, call)
	return dropped
end

-- A front's slice: charges what it spent, lets go of the rest, holds what it wants anew.
function holding.lease(keys, call)
	local id = holding.read_id(call)
	local ttl = words.number(call, 'ttl_ms', 1, TTL_MOST)
	local spent, granted = words.number(call, 'spent', 0, MOST), words.number(call, 'want', 0, MOST)
	call.each = nil
	words.rest(call, keys)
	local item = call.items[1]
	if call.items[2] or item.observed then
		errors.raise('ERR a lease is of one limit, neither OBSERVED nor TRIED')
	end
	local limit, counters = item.limit, counter.load(call)
	local c = item.counter
	if c then
		local own = without_own(counters, id, true)[c]
		c.changed = own ~= nil
		spent = own and math.min(spent, own.cost) or 0
		if spent > 0 then
			limit.way.charge(limit, c.s, limit.way.view(limit, c.s, call.now, call.us), spent)
			c.limit, c.charged = limit, true
		end
		local room = limit.quota == 0 and 0 or limit.way.view(limit, c.s, call.now, call.us).room - c.held
		granted = math.min(granted, math.max(0, room), MOST)
		if c.holds and #c.holds >= holds.most or (call.full or call.outgrown) and need('room').lacks(item, call) then
			granted = 0
		end
		if granted > 0 then
			put(c, {ends = math.max(call.now, c.s.last) + ttl, cost = granted, lease = true, id = id})
			c.limit, c.changed = limit, true
		end
		counter.save(counters, call)
	end
	call.cost = 1
	decide.try(item, call)
	local allowed, remaining, retry, reset, delay, next, bound = decide.answer(item, call, true)
	return {granted, allowed + 2 * bound, limit.capacity, remaining, retry, reset, delay, next}
end

return holding
