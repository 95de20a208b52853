-- Limits that ask who: concurrency, whose lease is it; distinct, which member.
local errors = need('errors')
local whose = {}

-- The 16 hex digits that an id stands for: itself, if it is written so.
function whose.id(text)
	if #text == 16 and not text:find('[^0-9a-f]') then
		return text
	end
	return redis.sha1hex(text):sub(1, 16)
end

-- The fingerprint of a member: 8 bytes.
function whose.member(text)
	return (redis.sha1hex(text):sub(1, 16):gsub('..', function(digits)
		return string.char(tonumber(digits, 16))
	end))
end

-- Refuses what a command (`word`) can't do with such a limit, the `number`-th.
function whose.check(word, item, number)
	local kind = item.limit.kind
	if kind == 'N' and word ~= 'PEEK' and word ~= 'RESET' and word ~= 'ACQUIRE' and word ~= 'RELEASE' and
		word ~= 'RENEW' and word ~= 'HOLDERS' then
		errors.raise('ERR limit ' .. number .. ': concurrency is acquired and released: SLUICE.ACQUIRE')
	elseif kind == 'D' and (word == 'HOLD' or word == 'CONFIRM' or word == 'CANCEL' or word == 'LEASE') then
		errors.raise('ERR limit ' .. number .. ': distinct is not held: SLUICE.CHECK with MEMBER decides it at once')
	elseif kind == 'D' and not item.member and (word == 'CHECK' or word == 'ACQUIRE' or word == 'REFUND') then
		errors.raise('ERR limit ' .. number .. ": distinct counts members: expected MEMBER and who it is, as in " ..
			'SLUICE.' .. word .. ' key 1 MEMBER 192.0.2.1 "distinct 50/1h"')
	end
end

-- Decides such an item; whether it admits.
function whose.try(item, call, v)
	local limit, cost = item.limit, call.cost
	v.who = limit.kind == 'N' and call.lease or limit.kind == 'D' and item.member or nil
	v.known = v.who and limit.way.knows(v, v.who)
	item.known = v.known and true or false
	item.admits = item.known or (limit.kind == 'D' and 1 or cost) <= v.room
	return item.admits
end

return whose
