-- Deciding a call: whether each of its limits admits, then charging all or none, then what each answers, and the one
-- answer that they make together (contract, section 4). A counter that several limits meet in is charged once.
--
-- A call is {cost, items, now, us, set, each, exact}; an item is {limit, key, field, counter, observed, tried}, and
-- gets `admits`, `delay` (and `delay_charged`, what it is once it is charged: at its own limit's rate) and how its
-- counter stood when it was tried, `v`. What is held of a counter is as good as charged to everybody else: deciding c
-- where H is held is deciding c + H.
local counter = need('counter')
local MOST = 4294967295
-- The longest wait that any door tells: 2^64 - 2 ns, 584 years.
local WAIT_MOST = 18446744073710
-- SLUICE_BOUND_HOLDS: only holds are in the way, or there is no place for one more.
local HOLDS = 4

-- Whether the item admits; and, where it is a leaky bucket that does, after what delay.
local function try_plain(item, call)
	local limit, cost = item.limit, call.cost
	item.delay = 0
	if cost == 0 or limit.kind == 'U' then
		item.admits = true
		return true
	elseif limit.quota == 0 then
		item.admits = false
		return false
	end
	local c = item.counter
	local v = limit.way.view(limit, c.s, call.now, call.us)
	item.v = v
	if limit.way.knows then
		return need('whose').try(item, call, v)
	end
	cost = cost + c.held
	item.admits = cost <= v.room
	if item.admits and limit.kind == 'K' then
		item.delay = limit.way.delay(v, cost, v.rate)
		item.delay_charged = limit.way.delay(v, cost, limit.quota)
	end
	return item.admits
end

-- The same where there is no room for more (room.lua): what would take some is `short`, and denies.
local function try(item, call)
	local admits = try_plain(item, call)
	if admits and (call.full or call.outgrown) and call.cost > 0 and item.counter and not item.known and
		need('room').lacks(item, call) then
		item.admits, item.short, admits = false, true, false
	end
	return admits
end

-- Tries all items; whether all that are not observed admit.
local function try_all(call)
	local items, allowed = call.items, true
	for i = 1, #items do
		if not try(items[i], call) and not items[i].observed then
			allowed = false
		end
	end
	return allowed
end

-- What the item answers, from its counter as it is now: allowed, remaining, retry, reset, delay, next, and which bound
-- it met (include/sluice.h): 0, or 4, holds.
local function answer(item, call, each)
	local limit, c = item.limit, item.counter
	if limit.kind == 'U' then
		return 1, MOST, 0, 0, item.delay, 0, 0
	elseif limit.quota == 0 then
		return item.admits and 1 or 0, 0, item.admits and 0 or -1, 0, 0, 0, 0
	end
	local v, way = item.v, limit.way
	if not v or c.taken and c.taken ~= item then
		v = way.view(limit, c.s, call.now, call.us)
		item.v = v
	end
	local held, cost = c.held, limit.kind == 'D' and 1 or call.cost
	local room = v.room - held
	if room < 0 then
		room = 0
	elseif room > MOST then
		room = MOST
	end
	local allowed, retry, reset, next, delay, bound = 1, 0, 0, 0, item.delay, 0
	if held ~= 0 then
		local holds = need('holds')
		if not item.admits then
			local _, only
			retry, _, only = holds.retry(c, limit, v, cost, call.us)
			bound = only and HOLDS or 0
		end
		reset = holds.reset(c, limit, v)
		if each and room < limit.capacity then
			next = holds.retry(c, limit, v, room + 1, call.us)
		end
	else
		if not item.admits then
			retry = cost > limit.capacity and -1 or way.retry(limit, v, cost)
		end
		reset = way.reset(limit, v)
		if each and room < limit.capacity then
			next = way.retry(limit, v, room + 1)
		end
	end
	if item.full then
		retry, bound = 1, HOLDS
	end
	if not item.admits then
		allowed = 0
	end
	if item.short then
		room, delay = 0, 0
		retry, reset, bound = need('room').wait(item, call, reset)
	end
	if reset > WAIT_MOST or retry > WAIT_MOST or delay > WAIT_MOST or next > WAIT_MOST then
		reset, retry = math.min(reset, WAIT_MOST), math.min(retry, WAIT_MOST)
		delay, next = math.min(delay, WAIT_MOST), math.min(next, WAIT_MOST)
	end
	return allowed, room, retry, reset, delay, next, bound
end

-- The reply of a call that was decided.
local function reply(call)
	local items, answer = call.items, answer
	if call.each then
		local rows = {}
		for i = 1, #items do
			local allowed, remaining, retry, reset, delay, next, bound = answer(items[i], call, true)
			rows[i] = {allowed + 2 * bound, items[i].limit.capacity, remaining, retry, reset, delay, next}
			if call.exact then
				rows[i][8] = allowed == 0 and need('ties').rounded_up(items[i], call, WAIT_MOST) or 0
			end
		end
		return rows
	end
	local only = items[1]
	if items[2] or only.observed or only.limit.kind == 'U' then
		return need('merge')(call)
	end
	local allowed, remaining, retry, reset, delay = answer(only, call, false)
	return {allowed, only.limit.capacity, remaining, retry, reset, delay, 0}
end

-- Charges the cost to the counters of all items that admit, each for the first that does.
local function charge(call)
	local items, cost = call.items, call.cost
	for i = 1, #items do
		local item = items[i]
		local c = item.counter
		if c and item.admits and not item.tried and not c.taken then
			local limit = item.limit
			c.limit, c.charged, c.taken = limit, true, item
			limit.way.charge(limit, c.s, item.v, cost)
		end
	end
	for i = 1, #items do
		local item = items[i]
		if item.admits and item.delay_charged and item.counter.taken then
			item.delay = item.delay_charged
		end
	end
end

-- CHECK, or where nothing `writes` PEEK.
local function check(call, writes)
	local counters = counter.load(call)
	if call.beside then
		need('holding').leave_out(counters, call.beside)
	end
	if try_all(call) and writes and call.cost > 0 then
		charge(call)
		counter.save(counters, call)
	end
	return reply(call)
end

return {wait_most = WAIT_MOST, try = try, try_all = try_all, answer = answer, reply = reply, charge = charge,
	check = check}
