-- The straight way of the calls that most calls are: CHECK or PEEK of one window, or of one log of at most 128 entries,
-- of which nothing is held:
--
--   key cost [AT ms] [EACH | EXACT] [NAME n] limit
--
-- It decides as window.lua and log.lua do, but builds no table except the reply, nor a function. Whatever else there is
-- in the words or in what Redis holds, mistakes too, it leaves to the others, and has changed nothing then.
-- tools/script puts this where `keys`, `args`, `at` (of the cost), `writes` (whether it is a CHECK) and `limits` (those
-- that are known, by their text; nil in the script for EVALSHA) are local.
repeat
	local key, cost, text, now, set, each, name = keys[1], args[at], args[at + 1], nil, nil, nil, nil
	if not key or not text or keys[2] or #key > 1024 then
		break
	elseif cost == '1' then
		cost = 1
	else
		cost = #cost <= 10 and cost:find('^%d+$') and tonumber(cost)
		if not cost or cost > 4294967295 then
			break
		end
	end
	if args[at + 2] then
		if text == 'AT' then
			set = args[at + 2]
			now = CLIENT_TIME and #set <= 13 and set:find('^%d+$') and tonumber(set)
			if not now or now > 9223372036854 then
				break
			end
			at, text = at + 2, args[at + 3]
		end
		if text == 'EXACT' or text == 'EACH' then
			each, at, text = text, at + 1, args[at + 2]
		end
		if text == 'NAME' then
			name, at, text = args[at + 2], at + 2, args[at + 3]
		end
		if not text or args[at + 2] or name and (#name < 1 or #name > 64) then
			break
		end
	end

	-- The limit: kind, quota, window in ms, and its digits, and the names of its counter's fields.
	local kind, quota, width, digits, field, held_field
	if limits then
		local limit = limits[text]
		kind = limit and limit.kind
		if kind ~= 'W' and kind ~= 'F' and kind ~= 'L' then
			break
		end
		quota, width, digits, field, held_field = limit.quota, limit.window, limit.digits, limit.field, limit.held_field
		if name then
			field = field .. '@' .. name
			held_field = '!' .. field
		end
	else
		local most, count, unit = text:match('^(%d+)/(%d+)(%l)$')
		kind = 'W'
		if not most then
			kind, most, count, unit = text:match('^(%l+%-%l+) (%d+)/(%d+)(%l)$')
			kind = kind == 'sliding-window' and 'W' or kind == 'fixed-window' and 'F' or kind == 'sliding-log' and 'L'
		end
		local factor = unit == 's' and 1000 or unit == 'm' and 60000 or unit == 'h' and 3600000 or
			unit == 'd' and 86400000
		if not kind or not factor then
			break
		end
		quota, width = most + 0, count * factor
		if quota > 4294967295 or width == 0 or width > 316224000000 then
			break
		end
		-- To turn a number into text costs as much as to read the limit: the usual windows are spared it.
		if unit == 's' and count:byte() > 48 then
			digits = count .. '000'
		elseif count == '1' then
			digits = unit == 'm' and '60000' or unit == 'h' and '3600000' or unit == 'd' and '86400000' or '1000'
		else
			digits = width .. ''
		end
		field = name and kind .. digits .. '@' .. name or kind .. digits
		held_field = '!' .. field
	end
	if quota == 0 or quota * width >= 9007199254740992 then
		break
	elseif not now then
		local time = redis.call('TIME')
		local us = time[2] + 0
		now = time[1] * 1000 + (us - us % 1000) / 1000
	end
	local found = redis.pcall('HMGET', key, field, held_field)
	local raw = found[1]
	if found.err or found[2] then
		break
	end

	-- How the counter stands: `e` into the window, its counts; of a log its entries, from byte `first`, and running
	-- costs.
	local last, cur, prev, e, used, first, total, base, newest, before = 0, 0, 0, 0, 0, 29, 0, now, now, 0
	if kind == 'L' then
		local bytes = raw and #raw or 28
		if raw then
			local chunk, tail, offset, sum
			if bytes <= 28 or bytes > 1044 or bytes % 8 ~= 4 then
				break
			end
			last, chunk, tail, before, base, offset, sum = struct.unpack('<dI4I4I4dI4I4', raw)
			newest, total = struct.unpack('<I4I4', raw, bytes - 7)
			newest = base + newest
			if chunk ~= tail or not (base >= 0 and base <= newest and newest <= last and last % 1 == 0 and
					base % 1 == 0) or now - base >= 4294967296 then
				break
			end
			while base + offset <= now - width do
				before, first = sum, first + 8
				if first > bytes then
					break
				end
				offset, sum = struct.unpack('<I4I4', raw, first)
			end
			used = (total - before) % 4294967296
		end
	else
		if raw then
			if #raw ~= 16 then
				break
			end
			last, cur, prev = struct.unpack('<dI4I4', raw)
			if not (last >= 0 and last % 1 == 0) then
				break
			end
		end
		e = now % width
		if last < now - e then
			prev = last >= now - e - width and cur or 0
			cur = 0
		end
		used = cur
		if kind == 'F' then
			prev = 0
		elseif prev ~= 0 then
			used = cur + math.ceil(prev * (width - e) / width)
		end
	end
	local allowed, room = 1, used < quota and quota - used or 0
	if cost > room then
		allowed = 0
	end
	-- An instant before the last charge, counts of a larger quota than this one, and two waits at once are for the
	-- others.
	if last > now or prev * width >= 9007199254740992 or allowed == 0 and each and cost ~= room + 1 then
		break
	end

	if writes and allowed == 1 and cost > 0 then
		local moves, written = not raw, nil
		room = room - cost
		if kind == 'L' then
			local upto = -1
			if used == 0 then
				before, base = total, now
			elseif newest == now then
				upto = -9
			end
			moves = moves or newest ~= now
			used, total = used + cost, (total + cost) % 4294967296
			written = struct.pack('<dI4I4I4d', now, 0, 0, before, base) .. (raw and raw:sub(first, upto) or '') ..
				struct.pack('<I4I4', now - base, total)
			newest, first = now, 29
		else
			moves, cur = cur == 0, cur + cost
			written = struct.pack('<dI4I4', now, cur, prev)
		end
		local added = redis.pcall('HSET', key, field, written)
		if added ~= 0 and added ~= 1 then
			break
		end
		-- The key has to live as long as the counter matters; a log's has an expiry already, and gets a later one at
		-- once.
		if moves and not (kind == 'L' and raw and not set and redis.REDIS_VERSION_NUM and
				redis.call('PEXPIRE', key, digits, 'GT') == 1) then
			local life = kind == 'L' and width or (kind == 'F' and 1 or 2) * width - e
			if redis.call('PTTL', key) >= (set and life + 3600000 or life) then
				life = nil
			elseif set then
				redis.call('PEXPIRE', key, string.format('%.0f', life + 3600000))
			else
				redis.call('PEXPIREAT', key, string.format('%.0f', now + life))
			end
		end
		raw = written
	end

	-- What it answers: how long until the denied cost, or one more than there is room for, is admitted.
	local retry, next, reset, over, want = 0, 0, 0, 0, nil
	if allowed == 0 then
		want = cost
	elseif each and room < quota then
		want = room + 1
	end
	if want and want <= quota then
		local wait
		if kind == 'L' then
			local offset, sum = struct.unpack('<I4I4', raw, first)
			while (total - sum) % 4294967296 > quota - want do
				first = first + 8
				offset, sum = struct.unpack('<I4I4', raw, first)
			end
			wait = base + offset + width - now
		elseif kind == 'F' then
			wait = width - e
		else
			local spare, count = quota - cur - want, prev
			wait = width - e
			if spare < 0 then
				spare, count, wait = quota - want, cur, wait + width
			end
			local share = spare * width
			local whole = math.floor(share / count)
			wait, over = wait - whole, each == 'EXACT' and math.floor((share - whole * count) * 1000000 / count)
		end
		next = wait
		retry = allowed == 0 and wait or 0
	elseif want then
		retry = -1
	end
	if kind == 'L' then
		reset = used > 0 and newest + width - now or 0
	elseif cur ~= 0 then
		reset = (kind == 'F' and 1 or 2) * width - e
	elseif prev ~= 0 then
		reset = width - e
	end
	if each then
		return {{allowed, quota, room, retry, reset, 0, next, each == 'EXACT' and (retry > 0 and over or 0) or nil}}
	end
	return {allowed, quota, room, retry, reset, 0, 0}
until true
