-- fixed-window and sliding-window: two counts on windows aligned to the Unix epoch (src/algo/window.c). With t the
-- instant, e = t mod W, and the counts `cur` and `prev` of t's window and the one before:
--
--   fixed-window    admits when  cur + c <= Q
--   sliding-window  admits when  c <= Q - cur - ceil(prev * (W - e) / W)
--
-- The usage never grows while nothing arrives, so the first instant that admits c is found in closed form: in this
-- window, if cur + c <= Q, at e' = W - floor((Q - cur - c) * W / prev); else in the next, where cur is what prev was.
--
-- Kept as 16 bytes: d instant of the last charge (ms), I4 count of its window, I4 count of the one before.

local function view(limit, raw, now)
	local last, cur, prev, width, quota = 0, 0, 0, limit.window, limit.quota
	if raw then
		if #raw ~= 16 then
			return nil
		end
		last, cur, prev = struct.unpack('<dI4I4', raw)
		if not (last >= 0 and last < 9007199254740992 and last % 1 == 0) then
			return nil
		end
	end
	local t = now > last and now or last
	local e = t % width
	local start = t - e
	if last < start then
		prev = last >= start - width and cur or 0
		cur = 0
	end
	local used = cur
	if limit.kind == 'F' then
		prev = 0
	elseif prev ~= 0 then
		local share = prev * (width - e)
		used = used + (share < 9007199254740992 and math.ceil(share / width) or
			need('numbers').share_up(prev, width - e, width))
	end
	return {t = t, e = e, cur = cur, prev = prev, room = used < quota and quota - used or 0}
end

local function retry(limit, v, cost)
	local width, spare, count, wait = limit.window, limit.quota - v.cur - cost, v.prev, limit.window - v.e
	if limit.kind == 'F' then
		return wait, 0
	elseif spare < 0 then
		spare, count, wait = limit.quota - cost, v.cur, wait + width
	end
	local whole, rest = need('numbers').share(spare, width, count)
	return wait - whole, math.floor(rest * 1000000 / count)
end

-- Until prev weighs nothing at the end of this window, cur at the end of the next.
local function reset(limit, v)
	if v.cur ~= 0 then
		return (limit.kind == 'F' and 1 or 2) * limit.window - v.e
	end
	return v.prev ~= 0 and limit.window - v.e or 0
end

local function charge(_, v, cost)
	local cur = v.cur + cost
	v.cur, v.room = cur, v.room - cost
	return struct.pack('<dI4I4', v.t, cur, v.prev)
end

-- From the count of t's window first, then from the one before, where they stand in the state, which may be a window
-- earlier than t's; the clock stays.
local function refund(_, v, cost, raw)
	local last, cur, prev = struct.unpack('<dI4I4', raw)
	local take = math.min(cost, v.cur + v.prev)
	local from_cur = last < v.t - v.e and take or math.min(take, cur)
	return take > 0 and struct.pack('<dI4I4', last, cur - from_cur, prev - (take - from_cur))
end

return {view = view, retry = retry, reset = reset, charge = charge, refund = refund}
