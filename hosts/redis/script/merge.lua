-- The one answer that several limits make together.
local decide = need('decide')
local MOST = 4294967295

-- Rule 4.4: the answer of all items that are not observed. Of those that deny the one that takes longest is named.
return function(call)
	local items, answer = call.items, decide.answer
	local all_allowed, quota, least, longest, all_reset, all_delay, index = 1, MOST, MOST, 0, 0, 0, -1
	for i = 1, #items do
		local item = items[i]
		if not item.observed and item.limit.kind ~= 'U' then
			local allowed, remaining, retry, reset, delay = answer(item, call, false)
			local decides
			if allowed == 1 then
				decides = all_allowed == 1 and (index < 0 or remaining < least)
			else
				decides = all_allowed == 1 or longest ~= -1 and (retry == -1 or retry > longest or
					retry == longest and need('ties').longer(items[index + 1], item, call, decide.wait_most))
				all_allowed = 0
				longest = decides and retry or longest
			end
			if decides then
				index, quota = i - 1, item.limit.capacity
			end
			least = remaining < least and remaining or least
			all_reset = reset > all_reset and reset or all_reset
			all_delay = delay > all_delay and delay or all_delay
		end
	end
	-- What is denied is not held.
	return {all_allowed, quota, least, longest, all_reset, all_allowed == 1 and all_delay or 0, index}
end
