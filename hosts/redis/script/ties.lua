-- What waits are rounded up by to whole milliseconds, known to the nanosecond like the waits of the module. So of two
-- limits that deny and whose milliseconds are the same the one that takes longer is named.
local holds

-- By how many nanoseconds an item's wait was rounded up; 0 where it has none, or a longer one than is told (`most`).
local function rounded_up(item, call, most)
	local limit, c = item.limit, item.counter
	local way = limit.way
	if item.admits or item.short or limit.quota == 0 or call.cost > limit.capacity or not way.rounded_up then
		return 0
	elseif c.held ~= 0 then
		holds = need('holds')
		local _, over = holds.retry(c, limit, item.v, call.cost, call.us, true)
		return over
	end
	return way.retry(limit, item.v, call.cost) <= most and way.rounded_up(limit, item.v, call.cost) or 0
end

-- Whether the second of two items whose waits are the same milliseconds takes longer.
local function longer(first, second, call, most)
	return rounded_up(second, call, most) < rounded_up(first, call, most)
end

return {rounded_up = rounded_up, longer = longer}
