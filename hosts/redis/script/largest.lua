-- Of a call with UPTO, whose items have been tried.
local MOST = 4294967295

-- The largest part of the cost that all enforced items admit.
return function(call)
	local most = call.cost
	for _, item in ipairs(call.items) do
		if not item.observed and item.limit.kind ~= 'U' then
			local room = 0
			if item.limit.kind == 'D' then
				room = item.admits and MOST or 0
			elseif item.v and item.limit.quota ~= 0 then
				room = item.v.room - item.counter.held
			end
			most = math.min(most, math.max(0, room))
		end
	end
	return most
end
