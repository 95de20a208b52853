-- Deciding a call: whether each of its limits admits, then charging all or none, then what each answers, and the one
-- answer that they make together (contract, section 4). A counter that several limits meet in is charged once.
--
-- A call is {op, cost, items, clock = {now, us, set}}, with `id` and `ttl` for holds; an item is {limit, key, field,
-- observed, tried}. What is held of a counter is as good as charged to everybody else: deciding c where H is held is
-- deciding c + H.
local counter, notation = need('counter'), need('notation')
local decide = {}
local MOST = notation.most
-- The longest wait that any door tells: 2^64 - 2 ns, 584 years.
local WAIT_MOST = 18446744073710

local function view(item, clock)
	local c = item.counter
	return c.way.view(item.limit, c.s, clock.now, clock.us)
end

-- Whether the item admits; and, where it is a leaky bucket that does, after what delay.
local function try(item, cost, clock)
	local limit = item.limit
	item.delay = 0
	if cost == 0 or limit.kind == 'U' then
		item.admits = true
		return
	elseif limit.quota == 0 then
		item.admits = false
		return
	end
	local v = view(item, clock)
	item.v = v
	local want = cost + item.counter.held
	item.admits = want <= v.room
	if item.admits and limit.kind == 'K' then
		item.delay = item.counter.way.delay(limit, v, want)
	end
end

-- What the item answers, from its counter as it is now.
local function answer(item, cost, clock, each)
	local limit, c = item.limit, item.counter
	local a = {allowed = item.admits and 1 or 0, quota = limit.capacity, remaining = 0, retry = 0, reset = 0,
		delay = item.delay, next = 0}
	if limit.kind == 'U' then
		a.remaining = MOST
		return a
	elseif limit.quota == 0 then
		a.retry = item.admits and 0 or -1
		return a
	end
	local v = view(item, clock)
	local room = v.room - c.held
	a.remaining = room < 0 and 0 or room > MOST and MOST or room
	if not item.admits then
		a.retry = counter.retry(c, limit, v, cost, clock.us)
	end
	a.reset = counter.reset(c, limit, v)
	if each and a.remaining < limit.capacity then
		a.next = counter.retry(c, limit, v, a.remaining + 1, clock.us)
	end
	if a.reset > WAIT_MOST then
		a.reset = WAIT_MOST
	end
	if a.retry > WAIT_MOST then
		a.retry = WAIT_MOST
	end
	a.delay, a.next = math.min(a.delay, WAIT_MOST), math.min(a.next, WAIT_MOST)
	return a
end

local function longer(a, b)
	return a ~= -1 and (b == -1 or b > a)
end

-- Rule 4.4.
local function merge(items, answers)
	local all = {allowed = 1, quota = MOST, remaining = MOST, retry = 0, reset = 0, delay = 0, index = -1}
	for i, item in ipairs(items) do
		local a = answers[i]
		if not item.observed and item.limit.kind ~= 'U' then
			local decides
			if a.allowed == 1 then
				decides = all.allowed == 1 and (all.index < 0 or a.remaining < all.remaining)
			else
				decides = longer(all.retry, a.retry)
			end
			if decides then
				all.index, all.quota = i - 1, a.quota
			end
			all.allowed = math.min(all.allowed, a.allowed)
			all.remaining = math.min(all.remaining, a.remaining)
			all.retry = longer(all.retry, a.retry) and a.retry or all.retry
			all.reset = math.max(all.reset, a.reset)
			all.delay = math.max(all.delay, a.delay)
		end
	end
	return all
end

local function each_of(a)
	return {a.allowed, a.quota, a.remaining, a.retry, a.reset, a.delay, a.next}
end
decide.each_of = each_of

local function reply(call)
	local only = call.items[1]
	if not call.each and not call.items[2] and not only.observed and only.limit.kind ~= 'U' then
		local a = answer(only, call.cost, call.clock)
		return {a.allowed, a.quota, a.remaining, a.retry, a.reset, a.delay, 0}, a
	end
	local answers = {}
	for i, item in ipairs(call.items) do
		answers[i] = answer(item, call.cost, call.clock, call.each)
	end
	if call.each then
		for i, a in ipairs(answers) do
			answers[i] = each_of(a)
		end
		return answers
	end
	local all = merge(call.items, answers)
	return {all.allowed, all.quota, all.remaining, all.retry, all.reset, all.delay, all.index}, all
end

local function load(call)
	local counters = counter.load(call.items, call.clock.now, call.clock.us)
	for _, c in ipairs(counters) do
		counter.check(c)
	end
	return counters
end

local function save_changed(call, counters)
	for _, c in ipairs(counters) do
		if c.changed then
			counter.save(c, call.clock)
		end
	end
end

-- The counters to charge, each with the first limit that charges it.
local function charge_all(call, charge)
	for _, item in ipairs(call.items) do
		local c = item.counter
		if c and item.admits and not item.tried and not c.taken then
			c.limit, c.changed, c.taken = item.limit, true, true
			charge(c, item)
		end
	end
end

local function decided(call)
	local allowed = true
	for _, item in ipairs(call.items) do
		try(item, call.cost, call.clock)
		allowed = allowed and (item.admits or item.observed)
	end
	return allowed
end

local function charge(call)
	return function(c, item)
		c.way.charge(item.limit, c.s, item.v, call.cost)
		c.charged = true
	end
end

function decide.check(call)
	local counters = load(call)
	if decided(call) and call.cost > 0 then
		charge_all(call, charge(call))
	end
	save_changed(call, counters)
	return reply(call)
end

function decide.peek(call)
	load(call)
	decided(call)
	return reply(call)
end

function decide.refund(call)
	local counters, seen = load(call), {}
	for _, item in ipairs(call.items) do
		local c = item.counter
		if c and (c.raw or c.charged) and not seen[c] then
			seen[c] = true
			if c.way.refund(item.limit, c.s, view(item, call.clock), call.cost) then
				c.charged, c.changed = true, true
			end
		end
	end
	save_changed(call, counters)
	call.cost = 0
	decided(call)
	return reply(call)
end

function decide.reset(call)
	local forgotten = 0
	for _, c in ipairs(counter.load(call.items, call.clock.now, call.clock.us)) do
		forgotten = forgotten + (counter.forget(c) and 1 or 0)
	end
	return forgotten
end

-- ---- holds ---------------------------------------------------------------------------------------------------------

-- Takes the call's own holds out of its counters; what was taken, to be put back.
local function without_own(counters, id, lease)
	local holds, own = need('holds'), {}
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
	need('holds').insert(c.holds, one)
	c.held = c.held + one.cost
end

local function put_back(own)
	for c, one in pairs(own) do
		put(c, one)
	end
end

function decide.hold(call)
	local counters = load(call)
	local own = without_own(counters, call.id, false)
	if not decided(call) or call.cost == 0 then
		put_back(own)
		return reply(call)
	end
	charge_all(call, function(c)
		local t = math.max(call.clock.now, c.s.last)
		put(c, {ends = t + call.ttl, cost = call.cost, lease = false, id = call.id})
	end)
	save_changed(call, counters)
	return reply(call)
end

function decide.confirm(call)
	local counters = load(call)
	local own = without_own(counters, call.id, false)
	if not decided(call) then
		put_back(own)
		return reply(call)
	end
	for c in pairs(own) do
		c.changed = true
	end
	if call.cost > 0 then
		charge_all(call, charge(call))
	end
	save_changed(call, counters)
	return reply(call)
end

function decide.cancel(call)
	local counters, dropped = load(call), 0
	for c in pairs(without_own(counters, call.id, false)) do
		c.changed = true
		dropped = dropped + 1
	end
	save_changed(call, counters)
	return dropped
end

-- A front's slice: charges what it spent, lets go of the rest, holds what it wants anew.
function decide.lease(call)
	local counters = load(call)
	local item = call.items[1]
	local c, granted = item.counter, call.want
	if c then
		local own = without_own(counters, call.id, true)[c]
		local spent = own and math.min(call.spent, own.cost) or 0
		c.changed = own ~= nil
		if spent > 0 then
			c.way.charge(item.limit, c.s, view(item, call.clock), spent)
			c.limit, c.charged = item.limit, true
		end
		local room = item.limit.quota == 0 and 0 or math.max(0, view(item, call.clock).room - c.held)
		granted = math.min(call.want, room, MOST)
		if granted > 0 then
			local t = math.max(call.clock.now, c.s.last)
			put(c, {ends = t + call.ttl, cost = granted, lease = true, id = call.id})
			c.limit, c.changed = item.limit, true
		end
		save_changed(call, counters)
	end
	call.cost = 1
	try(item, 1, call.clock)
	return {granted, unpack(each_of(answer(item, 1, call.clock, true)))}
end

return decide
