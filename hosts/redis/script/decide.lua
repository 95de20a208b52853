-- Deciding a call: whether each of its limits admits, then charging all or none, then what each answers, and the one
-- answer that they make together (contract, section 4). A counter that several limits meet in is charged once.
--
-- An item is {key, limit, field, counter, member, observed, tried}, and gets `admits`, `delay` (and `delay_charged`,
-- what it is once it is charged: at its own limit's rate) and how its counter stood when it was tried, `v`. What is
-- held of a counter is as good as charged to everybody else: deciding c where H is held is deciding c + H.
local counter = need('counter')
local decide = {}
local MOST = 4294967295
-- The longest wait that any door tells: 2^64 - 2 ns, 584 years.
local WAIT_MOST = 18446744073710
-- SLUICE_BOUND_HOLDS: only holds are in the way, or there is no place for one more.
local HOLDS = 4

-- Whether the item admits, and, where it is a leaky bucket that does, after what delay. Where there is no room for more
-- (room.lua) what would take some is `short`, and denies.
local function try(item, call)
	local limit, cost, c = item.limit, call.cost, item.counter
	item.delay, item.short = 0, false
	if cost == 0 or limit.kind == 'U' or limit.quota == 0 then
		item.admits = cost == 0 or limit.kind == 'U'
		return item.admits
	end
	local v = counter.view(c, limit, call)
	item.v = v
	if limit.steps.find then
		-- A limit that asks who.
		v.who = limit.kind == 'N' and call.lease or item.member
		v.known = v.who and limit.steps.find(v, v.who)
		item.known = v.known ~= nil
		item.admits = item.known or (limit.kind == 'D' and 1 or cost) <= v.room
	else
		cost = cost + c.held
		item.admits = cost <= v.room
		if item.admits and limit.kind == 'K' then
			item.delay = limit.steps.delay(v, cost, v.rate)
			item.delay_charged = limit.steps.delay(v, cost, limit.quota)
		end
	end
	if item.admits and (call.full or call.outgrown) and not item.known and need('room').lacks(item, call) then
		item.admits, item.short = false, true
	end
	return item.admits
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

-- The largest part of the cost that all enforced items, which were tried, admit: at least 1.
local function largest(call)
	local most = call.cost
	for _, item in ipairs(call.items) do
		if not item.observed and item.limit.kind ~= 'U' then
			local room = item.v and item.v.room - item.counter.held or 0
			if item.limit.kind == 'D' or item.known then
				room = item.admits and MOST or 0
			end
			most = math.min(most, room)
		end
	end
	return math.max(1, most)
end

-- Tries all items with the cost or, where the call says UPTO, with the largest part of it that is admitted.
function decide.try_upto(call)
	local allowed = try_all(call)
	if call.upto and call.cost > 0 then
		call.cost = largest(call)
		allowed = try_all(call)
	end
	return allowed
end

-- Charges the cost to the counters of all items that admit, each for the first that does.
function decide.charge(call)
	local items, shaped = call.items, false
	for i = 1, #items do
		local item = items[i]
		local c = item.counter
		shaped = shaped or item.limit.kind == 'K'
		if c and item.admits and not item.tried and not c.taken then
			c.taken = item
			counter.charge(c, item.limit, item.v, call.cost)
		end
	end
	for i = 1, shaped and #items or 0 do
		local item = items[i]
		if item.admits and item.delay_charged and item.counter.taken then
			item.delay = item.delay_charged
		end
	end
end

-- What the item answers, from its counter as it is now: allowed, remaining, retry, reset, delay, next (where `asks`),
-- which bound it met (include/sluice.h): 0, or 4, holds; and by how many nanoseconds retry was rounded up.
local function answer(item, call, asks)
	local limit, c, admits = item.limit, item.counter, item.admits
	if limit.kind == 'U' then
		return 1, MOST, 0, 0, item.delay, 0, 0, 0
	elseif limit.quota == 0 then
		return admits and 1 or 0, 0, admits and 0 or -1, 0, 0, 0, 0, 0
	end
	local v, steps = item.v, limit.steps
	if not v or c.taken and c.taken ~= item then
		v = counter.view(c, limit, call)
		item.v = v
	end
	local cost, room = limit.kind == 'D' and 1 or call.cost, v.room - c.held
	if room < 0 or room > MOST then
		room = room > MOST and MOST or 0
	end
	local retry, next, delay, bound, over, reset = 0, 0, item.delay, 0, 0, nil
	local denies = not admits and not item.short and not item.full
	asks = asks and room < limit.capacity
	if c.held ~= 0 then
		local holds = need('holds')
		if denies then
			local only
			retry, over, only = holds.retry(c, limit, v, cost, call.us)
			bound = only and HOLDS or 0
		end
		reset = holds.reset(c, limit, v)
		next = asks and holds.retry(c, limit, v, room + 1, call.us) or 0
	else
		if denies and cost > limit.capacity then
			retry = -1
		elseif denies then
			retry, over = steps.retry(limit, v, cost)
		end
		reset = steps.reset(limit, v)
		next = asks and steps.retry(limit, v, room + 1) or 0
	end
	if item.full then
		retry, bound = 1, HOLDS
	elseif item.short then
		room, delay = 0, 0
		retry, reset, bound = need('room').wait(item, call, reset)
	end
	if retry > WAIT_MOST or reset > WAIT_MOST or delay > WAIT_MOST or next > WAIT_MOST then
		over = retry > WAIT_MOST and 0 or over
		retry, reset = math.min(retry, WAIT_MOST), math.min(reset, WAIT_MOST)
		delay, next = math.min(delay, WAIT_MOST), math.min(next, WAIT_MOST)
	end
	return admits and 1 or 0, room, retry, reset, delay, next, bound, over
end

-- A row for each item, as EACH and EXACT want it.
local function rows(call)
	local rows = {}
	for i, item in ipairs(call.items) do
		local allowed, room, retry, reset, delay, next, bound, over = answer(item, call, true)
		rows[i] = {allowed + 2 * bound, item.limit.capacity, room, retry, reset, delay, next,
			call.exact and over or nil}
	end
	return rows
end

-- Rule 4.4: the one answer of all items that are not observed. Of those that deny the one that takes longest is named,
-- to the nanosecond. What NEXT tells is the longest of those that have the least left; 0 where one of these has its
-- whole quota, as the least can't grow then.
local function merged(call)
	local all, quota, least, longest, finely, all_reset, all_delay, index, soonest = 1, MOST, MOST, 0, 0, 0, 0, -1
	local items, asks = call.items, call.next
	for i = 1, #items do
		local item = items[i]
		if not item.observed and item.limit.kind ~= 'U' then
			local allowed, room, retry, reset, delay, next, _, over = answer(item, call, asks)
			local decides
			if allowed == 1 then
				decides = all == 1 and (index < 0 or room < least)
			else
				decides = all == 1 or longest ~= -1 and
					(retry == -1 or retry > longest or retry == longest and over < finely)
				all = 0
			end
			if decides then
				index, quota, longest, finely = i - 1, item.limit.capacity, retry, over
			end
			if room < least or not soonest then
				least, soonest = math.min(room, least), next
			elseif room == least and soonest ~= 0 then
				soonest = next ~= 0 and math.max(next, soonest) or 0
			end
			all_reset, all_delay = reset > all_reset and reset or all_reset, delay > all_delay and delay or all_delay
		end
	end
	-- What is denied is not held.
	return {all, quota, least, longest, all_reset, all == 1 and all_delay or 0, index}, soonest or 0
end

-- The reply of a call that was decided: with EACH rows, and a `last` one, what was granted of the cost, whether it had
-- been before, and what others hold, where the call wants to know; else one answer, and `told`, `more` and NEXT after
-- it.
function decide.reply(call, last, told, more)
	if call.each then
		local reply = rows(call)
		reply[#reply + 1] = last
		return reply
	end
	local reply, soonest = merged(call)
	if told ~= nil then
		reply[8], reply[9] = told, more
	end
	if call.next then
		reply[#reply + 1] = soonest
	end
	return reply
end

-- A retry of what was charged: as it is now, with what is left of the same delay.
local function repeated(call, was)
	call.cost = 0
	try_all(call)
	for _, item in ipairs(call.items) do
		if item.limit.kind == 'K' then
			item.delay = math.max(0, was.leaves - call.now)
		end
	end
	return decide.reply(call, {was.granted, 1, 0}, call.upto and was.granted)
end

-- CHECK, or where nothing `writes` PEEK.
function decide.check(call, writes)
	local was = call.id and need('tokens').find(call)
	local counters, asked = counter.load(call), call.cost
	if was then
		return repeated(call, was)
	elseif call.beside then
		need('holding').without_own(counters, call.beside, false)
	end
	local allowed = decide.try_upto(call)
	if allowed and writes and call.cost > 0 then
		decide.charge(call)
		counter.save(call, counters)
		if call.id then
			need('tokens').note(call)
		end
	end
	local granted = allowed and asked > 0 and call.cost or 0
	return decide.reply(call, (call.upto or call.id) and {granted, 0, 0}, call.upto and granted)
end

decide.try, decide.try_all, decide.answer = try, try_all, answer

return decide
