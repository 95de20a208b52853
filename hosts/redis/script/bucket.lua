-- token-bucket and leaky-bucket: one debt that drains at the exact rational rate Q / W (src/algo/bucket.c).
--
-- Time is in ticks, 1 us or 1 ms, and debt in 1/W_ticks of a unit of cost: in one tick exactly Q of those drain, so
-- nothing is ever rounded and refill has no granularity. A limit is counted in us if a full bucket's debt stays below
-- 2^53 then (notation.lua), else in ms. With capacity C = B or N + 1:
--
--   remaining   C - ceil(d / W)             admits c when c <= that
--   retry       ceil((d + c W - C W) / Q)   ticks; reset: ceil(d / Q)
--   delay       ceil((d + (c - 1) W) / Q)   leaky-bucket: the request leaves when its last unit may
--
-- Kept as 23 bytes: d instant of the last charge (ms), I2 its microseconds, B 1 where the debt is in microseconds,
-- d debt, I4 the quota of the limit that charged it: Q above, whoever asks, until another charges it (0: not known, the
-- asking limit's). The burst is no part of a counter, so one may be met by a limit of the other tick: from ms to us the
-- debt is exact, and stays in ms where it would pass 2^53; from us to ms both are rounded up, so that nothing is
-- admitted early. Traffic in whole milliseconds never rounds.
local MOST = 9007199254740992

-- What a field says: instant, debt and tick as the limit counts, and the rate; nil where it is damaged.
local function read(limit, raw)
	if #raw ~= 23 then
		return nil
	end
	local sound = need('numbers').sound
	local last, us, fine, debt, rate = struct.unpack('<dI2BdI4', raw)
	if not sound(last) or not sound(debt) or us > 999 then
		return nil
	end
	fine = fine == 1
	if fine and not limit.fine then
		return us > 0 and last + 1 or last, 0, false, math.ceil(debt / 1000), rate
	elseif limit.fine and not fine and debt * 1000 < MOST then
		return last, 0, true, debt * 1000, rate
	end
	return last, us, fine, debt, rate
end

local function write(t, us, fine, debt, rate)
	return struct.pack('<dI2BdI4', t, us, fine and 1 or 0, debt, rate)
end

-- A wait of so many ticks in ms, rounded up.
local function to_ms(v, ticks)
	return v.fine and math.ceil(ticks / 1000) or ticks
end

local function view(limit, raw, now, us)
	local last, last_us, fine, debt, kept = 0, 0, limit.fine, 0, 0
	if raw then
		last, last_us, fine, debt, kept = read(limit, raw)
		if not last then
			return nil
		end
	end
	us = fine and us or 0
	local rate, width, elapsed = kept > 0 and kept or limit.quota, limit.window, now - last
	if fine then
		width, elapsed = width * 1000, elapsed * 1000 + us - last_us
	end
	if elapsed <= 0 then
		now, us = last, last_us
	elseif debt > 0 and rate > 0 then
		debt = elapsed < math.ceil(debt / rate) and debt - rate * elapsed or 0
	end
	local used = debt > 0 and math.ceil(debt / width) or 0
	return {t = now, us = us, fine = fine, width = width, debt = debt, kept = kept,
		rate = debt > 0 and rate or limit.quota, room = used < limit.capacity and limit.capacity - used or 0}
end

-- Rounded up to whole ticks, then to milliseconds.
local function retry(limit, v, cost)
	local debt, rate = v.debt - (limit.capacity - cost) * v.width, v.rate
	local ticks, rest = math.ceil(debt / rate), -debt % rate
	if v.fine then
		return math.ceil(ticks / 1000), math.floor(rest * 1000 / rate) + -ticks % 1000 * 1000
	end
	return ticks, math.floor(rest * 1000000 / rate)
end

local function reset(_, v)
	return v.debt > 0 and to_ms(v, math.ceil(v.debt / v.rate)) or 0
end

-- At the rate of the counter, or of the limit that is about to charge it.
local function delay(v, cost, rate)
	return math.ceil((v.debt + (cost - 1) * v.width) / (v.fine and rate * 1000 or rate))
end

-- What a lease that has ended is charged says nothing of who asks now: the rate stays. It may be of more than this
-- limit ever admits: then its debt is kept in ms.
local function charge(limit, v, cost, of_lease)
	v.rate = of_lease and v.kept > 0 and v.kept or math.max(limit.quota, 1)
	local t, us, fine, debt = v.t, v.us, v.fine, v.debt + cost * v.width
	if debt >= MOST and fine then
		t, us, fine = us > 0 and t + 1 or t, 0, false
		debt = math.ceil(v.debt / 1000) + cost * limit.window
	end
	v.debt, v.kept, v.room = math.min(debt, MOST - 1), v.rate, v.room - cost
	return write(t, us, fine, v.debt, v.rate)
end

-- Towards empty of debt, at most the debt of now; what drained since the last charge stays drained.
local function refund(limit, v, cost, raw)
	local take = math.min(cost * v.width, v.debt)
	local last, us, fine, debt, rate = read(limit, raw)
	return take > 0 and write(last, us, fine, debt - take, rate)
end

local function ends(limit, v)
	return v.t + (v.us > 0 and 1 or 0) + reset(limit, v)
end

return {view = view, retry = retry, reset = reset, delay = delay, charge = charge, refund = refund, ends = ends}
