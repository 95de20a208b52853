-- The straight way of the call that most calls are: CHECK or PEEK of one window, of which nothing is held:
--
--   key cost [AT ms] [EACH | EXACT] [NAME n] [sliding-window | fixed-window] Q/W
--
-- It decides as decide.lua does, with the same arithmetic, but builds no table except the reply. Whatever else there
-- is in the words or in what Redis holds, mistakes too, it leaves to the others: it has changed nothing then.
local aligned = need('aligned')

-- Kind, quota and window of a limit that is written as usual, and the names of its counter's fields; or nil.
local function plain(text)
	if KEPT then
		local limit = need('notation').usual(text)
		if limit and limit.quota ~= 0 and (limit.kind == 'W' or limit.kind == 'F') then
			return limit.kind, limit.quota, limit.window, limit.field, limit.holds_field
		end
		return nil
	end
	local word, space, quota, width, unit = text:match('^([%l-]*)( ?)(%d+)/(%d+)(%l+)$')
	local factor = unit == 's' and 1000 or unit == 'm' and 60000 or unit == 'h' and 3600000 or unit == 'd' and 86400000
	local kind = word == '' and space == '' and 'W' or space == ' ' and (word == 'sliding-window' and 'W' or
		word == 'fixed-window' and 'F')
	if not kind or not factor then
		return nil
	end
	quota, width = tonumber(quota), width * factor
	if quota == 0 or quota > 4294967295 or width == 0 or width > 316224000000 then
		return nil
	end
	local field = kind .. width
	return kind, quota, width, field, '!' .. field
end

-- The instant that AT says, if it may be said and is one.
local function instant(text)
	local now = CLIENT_TIME and text and #text <= 13 and text:find('^%d+$') and tonumber(text)
	return now and now <= 9223372036854 and now or nil
end

-- What stands in Redis, as last, cur, prev; or nil where the others must look at it.
local function counts_of(raw)
	if raw.err or raw[2] then
		return nil
	elseif not raw[1] then
		return 0, 0, 0
	elseif #raw[1] == 16 then
		local last, cur, prev = struct.unpack('<dI4I4', raw[1])
		if last >= 0 and last < 9007199254740992 and last % 1 == 0 then
			return last, cur, prev
		end
	end
end

return function(keys, args, at, writes)
	local key, cost, word = keys[1], args[at], args[at + 1]
	if not key or not word or keys[2] or #key > 1024 or #cost > 10 or not cost:find('^%d+$') then
		return nil
	end
	cost = tonumber(cost)
	local now, each, exact, name, set = nil, false, false, nil, false
	if #word == 2 and word:lower() == 'at' then
		now, set = instant(args[at + 2]), true
		at, word = at + 2, args[at + 3]
	end
	if word and (#word == 4 and word:lower() == 'each' or #word == 5 and word:lower() == 'exact') then
		each, exact, at, word = true, #word == 5, at + 1, args[at + 2]
	end
	if word and #word == 4 and word:lower() == 'name' then
		name, at, word = args[at + 2] or '', at + 2, args[at + 3]
	end
	if not word or args[at + 2] or set and not now or cost > 4294967295 or name and (#name < 1 or #name > 64) then
		return nil
	end
	local kind, quota, width, field, holds_field = plain(word)
	if not kind then
		return nil
	elseif name then
		field = field .. '@' .. name
		holds_field = '!' .. field
	end
	if not now then
		local time = redis.call('TIME')
		local us = tonumber(time[2])
		now = time[1] * 1000 + (us - us % 1000) / 1000
	end
	local raw = redis.pcall('HMGET', key, field, holds_field)
	local last, cur_then, prev_then = counts_of(raw)
	if not last then
		return nil
	end
	local t, e, cur, prev, room = aligned.stand(kind, quota, width, now, last, cur_then, prev_then)
	local allowed, retry, next = 1, 0, 0
	if cost > room then
		allowed = 0
		retry = cost > quota and -1 or aligned.retry(kind, quota, width, e, cur, prev, cost)
	elseif writes and cost > 0 then
		cur, room = cur + cost, room - cost
		local written = redis.pcall('HSET', key, field, struct.pack('<dI4I4', t, cur, prev))
		if type(written) == 'table' then
			return nil
		end
		-- What a counter says matters as long as what it said before if that was in the same window.
		if cur_then == 0 or last < t - e then
			need('expiry')(key, t - e + (kind == 'F' and width or 2 * width), now, set)
		end
	end
	local reset = aligned.reset(kind, width, e, cur, prev)
	if not each then
		return {allowed, quota, room, retry, reset, 0, 0}
	elseif room < quota then
		next = aligned.retry(kind, quota, width, e, cur, prev, room + 1)
	end
	local over = exact and (retry > 0 and aligned.rounded_up(kind, quota, width, cur, prev, cost) or 0) or nil
	return {{allowed, quota, room, retry, reset, 0, next, over}}
end
