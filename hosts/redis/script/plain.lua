-- The straight way of a CHECK or PEEK of limits of requests that count for one key, each in a counter of its own, of
-- which nothing is held: of those that direct.lua leaves, mostly token- and leaky-buckets:
--
--   key cost [AT ms] [EACH | EXACT] [NAME n] limit [[NAME n] limit ..]
--
-- It decides as decide.lua does, by the same steps, and builds little beside what they need. Whatever else there is in
-- the words or in what Redis holds, mistakes too, it leaves to the others: it answers nothing, and has changed nothing.
local notation, expiry = need('notation'), need('expiry')
-- The longest wait that any door tells: 2^64 - 2 ns, 584 years.
local WAIT_MOST = 18446744073710
-- The most that remains of a quota, at any door.
local MOST = 4294967295

-- What a limit answers; of `delay` what it was before the charge, where there was one.
local function answer(limit, v, cost, charged, asks)
	local steps, room, retry, next, delay, over = limit.steps, v.room, 0, 0, 0, 0
	local admits = charged or cost <= room
	room = room > MOST and MOST or room
	if limit.kind == 'K' and cost > 0 and admits then
		delay = v.delay or steps.delay(v, cost, v.rate)
	end
	if not admits then
		retry = -1
		if cost <= limit.capacity then
			retry, over = steps.retry(limit, v, cost)
		end
	end
	if asks and room < limit.capacity then
		next = steps.retry(limit, v, room + 1)
	end
	local reset = steps.reset(limit, v)
	if reset > WAIT_MOST or retry > WAIT_MOST or delay > WAIT_MOST or next > WAIT_MOST then
		over = retry > WAIT_MOST and 0 or over
		retry, reset = math.min(retry, WAIT_MOST), math.min(reset, WAIT_MOST)
		delay, next = math.min(delay, WAIT_MOST), math.min(next, WAIT_MOST)
	end
	return admits, room, retry, reset, delay, next, over
end

-- Rule 4.4.
local function merged(limits, views, count, cost, charged)
	local all, quota, least, longest, finely, all_reset, all_delay, index = 1, 0, MOST, 0, 0, 0, 0, -1
	for i = 1, count do
		local admits, room, retry, reset, delay, _, over = answer(limits[i], views[i], cost, charged, false)
		local decides
		if admits then
			decides = all == 1 and (index < 0 or room < least)
		else
			decides = all == 1 or longest ~= -1 and
				(retry == -1 or retry > longest or retry == longest and over < finely)
			all = 0
		end
		if decides then
			index, quota, longest, finely = i - 1, limits[i].capacity, retry, over
		end
		least = room < least and room or least
		all_reset, all_delay = reset > all_reset and reset or all_reset, delay > all_delay and delay or all_delay
	end
	return {all, quota, least, longest, all_reset, all == 1 and all_delay or 0, index}
end

-- Charges all limits; false where that takes more than one write, or there is no memory.
local function charge(key, limits, views, count, cost, found, fields, now, set)
	local ends, there, top, gone = 0, false, 2 * count, nil
	for i = 1, count do
		local limit, v, stored = limits[i], views[i], found[2 * i - 1]
		local steps, before = limit.steps, stored and expiry.ends(limit, v)
		if limit.kind == 'K' then
			v.delay = steps.delay(v, cost, limit.quota)
		end
		local raw = steps.charge(limit, v, cost)
		local after = expiry.ends(limit, v)
		fields[2 * i], there = raw, there or stored
		ends = after ~= before and after > ends and after or ends
		if steps.changes then
			gone = gone or {}
			top = steps.changes(v.c, stored, raw, fields, top, gone)
		end
	end
	if gone and gone[1] then
		return false
	end
	local ttl = ends > 0 and not there and redis.call('PTTL', key)
	local done = redis.pcall('HSET', key, unpack(fields, 1, top))
	if ends > 0 and type(done) == 'number' then
		expiry.keep(key, ends, now, set, ttl)
	end
	return type(done) == 'number'
end

-- Reads the limits and the names of their counters' fields; how many, or nil.
local function read(args, at, limits, fields)
	local count, text = 0, args[at]
	repeat
		local name
		if text == 'NAME' then
			name, text, at = args[at + 1], args[at + 2], at + 2
		end
		local limit = text and notation.read(text)
		local steps = limit and limit.steps
		if not steps or steps.find or limit.quota == 0 or count == 16 or name and (#name < 1 or #name > 64) then
			return nil
		end
		local field = name and notation.field_of(limit, name) or limit.field
		for i = 1, count do
			if fields[2 * i - 1] == field then
				return nil
			end
		end
		count = count + 1
		limits[count], fields[2 * count - 1] = limit, field
		fields[2 * count] = name and '!' .. field or limit.held_field
		at = at + 1
		text = args[at]
	until not text
	return count
end

return function(keys, args, at, writes)
	local key, cost, now, us, set, each = keys[1], args[at], nil, 0, false, nil
	if keys[2] or #key > 1024 or not cost or #cost > 10 or not cost:find('^%d+$') then
		return nil
	end
	cost, at = tonumber(cost), at + 1
	if args[at] == 'AT' then
		local text = args[at + 1]
		now, set, at = CLIENT_TIME and text and #text <= 13 and text:find('^%d+$') and tonumber(text), true, at + 2
	end
	if args[at] == 'EACH' or args[at] == 'EXACT' then
		each, at = args[at], at + 1
	end
	if not args[at] or cost > MOST or set and (not now or now > 9223372036854) then
		return nil
	end
	local limits, fields = {false, false, false, false}, {false, false, false, false, false, false, false, false}
	local count = read(args, at, limits, fields)
	if not count then
		return nil
	elseif not now then
		local time = redis.call('TIME')
		local part = time[2] + 0
		us = part % 1000
		now = time[1] * 1000 + (part - us) / 1000
	end
	local found = redis.pcall('HMGET', key, unpack(fields, 1, 2 * count))
	if found.err then
		return nil
	end
	local views, charged = {false, false, false, false}, writes and cost > 0
	for i = 1, count do
		local limit = limits[i]
		local steps = limit.steps
		local v = not found[2 * i] and
			steps.view(limit, found[2 * i - 1], now, us, steps.changes and {key = key, field = fields[2 * i - 1]})
		if not v then
			return nil
		end
		views[i], charged = v, charged and cost <= v.room
	end
	if charged and not charge(key, limits, views, count, cost, found, fields, now, set) then
		return nil
	elseif not each then
		return merged(limits, views, count, cost, charged)
	end
	local rows = {}
	for i = 1, count do
		local admits, room, retry, reset, delay, next, over = answer(limits[i], views[i], cost, charged, true)
		rows[i] = {admits and 1 or 0, limits[i].capacity, room, retry, reset, delay, next,
			each == 'EXACT' and over or nil}
	end
	return rows
end
