-- token-bucket and leaky-bucket: one debt that drains at the exact rational rate Q / W (src/algo/bucket.c).
--
-- Time is in ticks, 1 us or 1 ms, and debt in 1/W_ticks of a unit of cost: in one tick exactly Q of those drain, so
-- nothing is ever rounded and refill has no granularity. A limit is counted in us if a full bucket's debt stays below
-- 2^53 then (notation.derive), else in ms. With capacity C = B or N + 1:
--
--   remaining   C - ceil(d / W)             admits c when c <= that
--   retry       ceil((d + c W - C W) / Q)   ticks; reset: ceil(d / Q)
--   delay       ceil((d + (c - 1) W) / Q)   leaky-bucket: the request leaves when its last unit may
--
-- State: the instant of the last charge (ms and us), which of the two ticks its debt is in, the debt, and the quota
-- of the limit that charged it: Q above, whoever asks, until another charges it (0: not known, the asking limit's).
-- The burst is no part of a counter, so one may be met by a limit of the other tick: from ms to us the debt is exact,
-- and stays in ms where it would pass 2^53; from us to ms both are rounded up, so that nothing is admitted early.
-- Traffic in whole milliseconds never rounds. Kept as 23 bytes.
local numbers = need('numbers')

local function fresh()
	return {last = 0, us = 0, fine = false, debt = 0, quota = 0}
end

local function decode(raw)
	if #raw ~= 23 then
		return nil
	end
	local last, us, fine, debt, quota = struct.unpack('<dI2BdI4', raw)
	if not numbers.sound(last) or not numbers.sound(debt) or us > 999 then
		return nil
	end
	return {last = last, us = us, fine = fine == 1, debt = debt, quota = quota}
end

local function encode(s)
	return struct.pack('<dI2BdI4', s.last, s.us, s.fine and 1 or 0, s.debt, s.quota)
end

local function clone(s)
	return {last = s.last, us = s.us, fine = s.fine, debt = s.debt, quota = s.quota}
end

-- The state's instant, debt and tick as the limit counts.
local function stored(limit, s)
	if s.fine == limit.fine then
		return s.last, s.us, s.debt, s.fine
	elseif s.fine then
		return s.us > 0 and s.last + 1 or s.last, 0, math.ceil(s.debt / 1000), false
	elseif s.debt * 1000 < numbers.most then
		return s.last, 0, s.debt * 1000, true
	end
	return s.last, 0, s.debt, false
end

-- A wait of so many ticks in ms, rounded up.
local function to_ms(ticks, fine)
	return fine and math.ceil(ticks / 1000) or ticks
end

local function view(limit, s, now, us)
	local last, last_us, debt, fine = stored(limit, s)
	local rate = s.quota > 0 and s.quota or limit.quota
	local v = {t = now, us = fine and us or 0, fine = fine, width = limit.window, debt = 0, room = 0, rate = rate}
	if fine then
		v.width = limit.window * 1000
	end
	local elapsed = fine and (now - last) * 1000 + us - last_us or now - last
	if elapsed <= 0 then
		v.t, v.us = last, last_us
	elseif debt > 0 and rate > 0 then
		debt = elapsed < math.ceil(debt / rate) and debt - rate * elapsed or 0
	end
	if debt == 0 then
		v.rate = limit.quota
	end
	v.debt = debt
	local used = debt > 0 and math.ceil(debt / v.width) or 0
	v.room = used < limit.capacity and limit.capacity - used or 0
	return v
end

local function retry(limit, v, cost)
	return to_ms(math.ceil((v.debt - (limit.capacity - cost) * v.width) / v.rate), v.fine)
end

-- By how many nanoseconds that is rounded up: to whole ticks, then to milliseconds.
local function rounded_up(limit, v, cost)
	local debt = v.debt - (limit.capacity - cost) * v.width
	local ticks, rest = math.ceil(debt / v.rate), -debt % v.rate
	if v.fine then
		return (numbers.share(rest, 1000, v.rate)) + -ticks % 1000 * 1000
	end
	return (numbers.share(rest, 1000000, v.rate))
end

local function reset(_, v)
	return v.debt > 0 and to_ms(math.ceil(v.debt / v.rate), v.fine) or 0
end

-- At the rate of the counter, or of the limit that is about to charge it.
local function delay(v, cost, rate)
	return math.ceil((v.debt + (cost - 1) * v.width) / (v.fine and rate * 1000 or rate))
end

-- What a lease that has ended is charged says nothing of who asks now: the rate stays. It may be of more than this
-- limit ever admits: then its debt is kept in ms.
local function charge(limit, s, v, cost, of_lease)
	s.last, s.us, s.fine = v.t, v.us, v.fine
	s.quota = of_lease and s.quota > 0 and s.quota or math.max(limit.quota, 1)
	v.rate = s.quota
	s.debt = v.debt + cost * v.width
	if s.debt >= numbers.most and v.fine then
		s.last, s.us, s.fine = v.us > 0 and v.t + 1 or v.t, 0, false
		s.debt = math.ceil(v.debt / 1000) + cost * limit.window
	end
	s.debt = math.min(s.debt, numbers.most - 1)
	v.debt, v.room = s.debt, v.room - cost
end

-- Towards empty of debt, at most the debt of now; what drained since the last charge stays drained.
local function refund(limit, s, v, cost)
	local take = math.min(cost * v.width, v.debt)
	s.last, s.us, s.debt, s.fine = stored(limit, s)
	s.debt = s.debt - take
	return take > 0
end

local function ends(_, s)
	return s.last + (s.us > 0 and 1 or 0) + to_ms(math.ceil(s.debt / math.max(s.quota, 1)), s.fine)
end

return {fresh = fresh, decode = decode, encode = encode, clone = clone, view = view, retry = retry,
	rounded_up = rounded_up, reset = reset, delay = delay, charge = charge, refund = refund, ends = ends}
