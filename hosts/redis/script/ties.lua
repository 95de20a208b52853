-- Of two limits that deny and whose waits are the same whole milliseconds: whether the second really takes longer.
-- What a wait was rounded up by is known to the nanosecond, like the waits of the module.
local holds

local function rounded_up(item, call)
	local c = item.counter
	if c.held ~= 0 then
		holds = need('holds')
		local _, over = holds.retry(c, item.limit, item.v, call.cost, call.us, true)
		return over
	end
	return item.limit.way.rounded_up and item.limit.way.rounded_up(item.limit, item.v, call.cost) or 0
end

return function(first, second, call, most)
	local function has_wait(item)
		return item.limit.quota ~= 0 and call.cost <= item.limit.capacity
	end
	if not has_wait(first) or not has_wait(second) or first.limit.way.retry(first.limit, first.v, call.cost) > most then
		return false
	end
	return rounded_up(second, call) < rounded_up(first, call)
end
