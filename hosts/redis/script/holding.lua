-- HOLD, CONFIRM, CANCEL and LEASE: cost that is taken out of what others may have before it is charged, or dropped.
local words, counter, decide = need('words'), need('counter'), need('decide')
local holds, errors = need('holds'), need('errors')
local holding = {}
local MOST = 4294967295
local TTL_MOST = 60000

-- The id of a hold, as it is kept: 16 digits.
local function read_id(call)
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
			c.held = c.held - one.cost
		end
	end
	return own
end

local function put(c, one)
	c.holds = c.holds or {}
	holds.insert(c.holds, one)
	c.held = c.held + one.cost
end

local function put_back(own)
	for c, one in pairs(own) do
		put(c, one)
	end
end

function holding.hold(keys, call)
	call.cost = words.number(call, 'cost', 0, MOST)
	local id = read_id(call)
	local ttl = words.number(call, 'ttl_ms', 1, TTL_MOST)
	words.rest(call, keys)
	local counters = counter.load(call)
	local own = without_own(counters, id, false)
	if not decide.try_all(call) or call.cost == 0 then
		put_back(own)
		return decide.reply(call)
	end
	for _, item in ipairs(call.items) do
		local c = item.counter
		if c and item.admits and not item.tried and not c.taken then
			c.limit, c.taken = item.limit, item
			put(c, {ends = math.max(call.now, c.s.last) + ttl, cost = call.cost, lease = false, id = id})
		end
	end
	counter.save(counters, call)
	return decide.reply(call)
end

function holding.confirm(keys, call)
	call.cost = words.number(call, 'cost', 0, MOST)
	local id = read_id(call)
	words.rest(call, keys)
	local counters = counter.load(call)
	local own = without_own(counters, id, false)
	if not decide.try_all(call) then
		put_back(own)
		return decide.reply(call)
	end
	for c in pairs(own) do
		c.changed = true
	end
	if call.cost > 0 then
		decide.charge(call)
	end
	counter.save(counters, call)
	return decide.reply(call)
end

function holding.cancel(keys, call)
	local id = read_id(call)
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
	local id = read_id(call)
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
		if granted > 0 then
			put(c, {ends = math.max(call.now, c.s.last) + ttl, cost = granted, lease = true, id = id})
			c.limit, c.changed = limit, true
		end
		counter.save(counters, call)
	end
	call.cost = 1
	decide.try(item, call)
	local allowed, remaining, retry, reset, delay, next = decide.answer(item, call, true)
	return {granted, allowed, limit.capacity, remaining, retry, reset, delay, next}
end

return holding
