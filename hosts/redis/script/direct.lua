-- The straight way of the calls that most calls are: CHECK or PEEK of limits of windows, sub-buckets and logs that
-- count for one key, each in a counter of its own, of at most 128 entries, of which nothing is held:
--
--   key cost [AT ms] [EACH | EXACT] [NAME n] limit [[NAME n] limit ..]
--
-- It decides as decide.lua does with window.lua, buckets.lua and log.lua, but in locals: it makes no function, and of
-- one limit no table except the reply. Each limit is stepped as if all will be charged; where one denies, all are
-- stepped once more. Whatever else there is in the words or in what Redis holds, mistakes too, it leaves to the
-- others, and has changed nothing then.
--
-- The time of a log that has an expiry: when that is and how long until then are two numbers, which cost less than
-- TIME, and say as well whether it has to be moved. The expiry of a log would move with each charge: so from the second
-- one on it goes a window further than it has to, and moves once a window.
--
-- A front says CHECK or PEEK of one window or log, with EXACT, as bytes (`packed`; hosts/server/cluster/command.c has
-- the layout), which are taken apart at once, and is answered with bytes: all between is the same.
--
-- tools/script puts this where `keys`, `args`, `at` (of the cost), `writes` (whether it is a CHECK) and `limits` (those
-- that are known, by their text; nil in the script for EVALSHA) are local, and `packed`, nil in the library.
repeat
	local key, cost, text, now, set, each = keys[1], args[at], args[at + 1], nil, nil, nil
	-- The limits: kind, quota, window in ms, of sub-buckets also their length and what becomes of the one at the edge;
	-- and the names of the counters' fields. Of one limit in locals; of several in `rules` and `fields`, two places
	-- each.
	local count, logs, kind, quota, width, unit, edge, field, held_field, rules, fields = 0
	if packed then
		writes, kind, cost, quota, width, field = struct.unpack('<Bc1I4I4dBc0', packed)
		writes, each, count, held_field, logs = writes == 1, 'EXACT', 2, '!' .. field, kind == 'L'
		if not key or keys[2] or #key > 1024 or kind ~= 'W' and kind ~= 'F' and kind ~= 'L' or quota == 0 or
				not (width >= 1 and quota * width < 9007199254740992) then
			break
		end
	else
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
		at = at + 1
		if args[at + 1] then
			if text == 'AT' then
				set = args[at + 1]
				now = CLIENT_TIME and set and #set <= 13 and set:find('^%d+$') and tonumber(set)
				if not now or now > 9223372036854 then
					break
				end
				at, text = at + 2, args[at + 2]
			end
			if text == 'EXACT' or text == 'EACH' then
				each, at, text = text, at + 1, args[at + 1]
			end
		end
		repeat
			local name, digits, limit
			if text == 'NAME' then
				name, text, at = args[at + 1], args[at + 2], at + 2
				if not text or #name < 1 or #name > 64 then
					break
				end
			end
			if count == 2 then
				rules = {{kind = kind, quota = quota, window = width, precision = unit, edge = edge}, false, false,
					false, false}
				fields = {field, held_field, false, false, false, false}
			end
			if limits then
				limit = limits[text]
				kind = limit and limit.kind
				if kind ~= 'W' and kind ~= 'F' and kind ~= 'L' and kind ~= 'S' then
					break
				end
				quota = limit.quota
				width = limit.window
				unit = limit.precision
				edge = limit.edge
				field = limit.field
				held_field = limit.held_field
				if name then
					field = field .. '@' .. name
					held_field = '!' .. field
				end
			else
				local most, number, letter = text:match('^(%d+)/(%d+)(%l)$')
				local rest = ''
				kind, unit, edge = 'W', nil, nil
				if not most then
					kind, most, number, letter, rest = text:match('^(%l+%-%l+) (%d+)/(%d+)(%l)(.*)$')
					kind = kind == 'sliding-window' and 'W' or kind == 'fixed-window' and 'F' or
						kind == 'sliding-log' and 'L' or kind == 'sliding-buckets' and 'S'
				end
				local factor = letter == 's' and 1000 or letter == 'm' and 60000 or letter == 'h' and 3600000 or
					letter == 'd' and 86400000
				if not kind or not factor or rest ~= '' and kind ~= 'S' then
					break
				end
				quota, width = most + 0, number * factor
				if quota > 4294967295 or width == 0 or width > 316224000000 then
					break
				end
				-- To turn a number into text costs as much as to read the limit: the usual windows are spared it.
				if letter == 's' and number:byte() > 48 then
					digits = number .. '000'
				elseif number == '1' then
					digits = letter == 'm' and '60000' or letter == 'h' and '3600000' or letter == 'd' and '86400000' or
						'1000'
				else
					digits = width .. ''
				end
				if kind == 'S' then
					number, letter, edge = rest:match('^ precision (%d+)(%l) edge (%l+)$')
					if not number then
						number, letter = rest:match('^ precision (%d+)(%l)$')
						edge = 'count'
					end
					unit = letter == 's' and number * 1000 or letter == 'm' and number * 60000 or
						letter == 'h' and number * 3600000
					if not unit or unit == 0 or width % unit ~= 0 or width < 2 * unit or width > 4096 * unit or
							edge ~= 'count' and edge ~= 'drop' and edge ~= 'weighted' then
						break
					end
					digits = digits .. '/' .. width / unit
				end
				field = name and kind .. digits .. '@' .. name or kind .. digits
				held_field = '!' .. field
			end
			if quota == 0 or quota * width >= 9007199254740992 then
				break
			elseif kind == 'L' then
				logs = true
			end
			if rules then
				local met = count == 32
				for i = 1, count, 2 do
					met = met or fields[i] == field
				end
				if met then
					break
				end
				rules[count + 1] = limit or {kind = kind, quota = quota, window = width, precision = unit, edge = edge}
				fields[count + 1] = field
				fields[count + 2] = held_field
			end
			count = count + 2
			at = at + 1
			text = args[at]
		until not text
		-- Where reading ended before the last word there is something for the others.
		if text or count == 0 then
			break
		end
	end

	local redis, ttl = redis
	if logs and writes then
		ttl = redis.call('PTTL', key)
		local expires = not now and ttl > 0 and redis.REDIS_VERSION_NUM and
			tonumber(redis.pcall('PEXPIRETIME', key))
		now = expires and expires - ttl or now
	end
	if not now then
		local time = redis.call('TIME')
		local us = time[2] + 0
		now = time[1] * 1000 + (us - us % 1000) / 1000
	end
	local found = fields and redis.pcall('HMGET', key, unpack(fields, 1, count)) or
		redis.pcall('HMGET', key, field, held_field)
	if found.err then
		break
	end

	-- Until when the key has to live, as far as that moves (`lives`, ms from now), and how much longer it may
	-- (`slack`); and all limits as one (contract, 4.4).
	local charging, i, lives, slack, reply, written = writes and cost > 0, 1, 0, 0
	local all, all_quota, least, longest, finely, all_reset, index
	repeat
		if rules then
			local rule = rules[i]
			kind, quota, width, unit, edge = rule.kind, rule.quota, rule.window, rule.precision, rule.edge
			if i == 1 then
				all, all_quota, least, longest, finely, all_reset, index = 1, 0, 4294967295, 0, 0, 0, -1
			end
		end
		local raw = found[i]
		if found[i + 1] then
			break
		end

		-- How the counter stands. A window: `e` into it, its count and that of the one before. Else its entries, which
		-- count from byte `first` on: a position, in units, and a running cost each; in its window are those that are
		-- not `reach` units old.
		local last, cur, prev, e, used = 0, 0, 0, 0, 0
		local reach, position, first, base, newest, before, total, offset, sum
		if kind == 'W' or kind == 'F' then
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
		else
			local bytes, bound = raw and #raw or 28, now - width + 1
			first, before, total, unit, reach, position = 29, 0, 0, unit or 1, width, now
			if kind == 'S' then
				reach = width / unit
				position = (now - now % unit) / unit
				bound = position - reach
				reach = edge == 'drop' and reach or reach + 1
			end
			base, newest = position, position
			if raw then
				local chunk, tail
				if bytes <= 28 or bytes > 1044 or bytes % 8 ~= 4 then
					break
				end
				last, chunk, tail, before, base, offset, sum = struct.unpack('<dI4I4I4dI4I4', raw)
				newest, total = offset, sum
				if bytes > 36 then
					newest, total = struct.unpack('<I4I4', raw, bytes - 7)
				end
				newest = base + newest
				if chunk ~= tail or not (base >= 0 and base <= newest and newest <= position and last % 1 == 0 and
						base % 1 == 0) or position - base >= 4294967296 then
					break
				end
				-- The first one is looked at first, which it is in most calls; then halves.
				local from, to, middle = 0, (bytes - 28) / 8, 0
				while from < to do
					if middle > 0 then
						offset, sum = struct.unpack('<I4I4', raw, 29 + middle * 8)
					end
					if base + offset >= bound then
						to = middle
					else
						from = middle + 1
					end
					middle = math.floor((from + to) / 2)
				end
				if from > 0 then
					first, before = 29 + from * 8, struct.unpack('<I4', raw, 25 + from * 8)
				end
				used = (total - before) % 4294967296
				if kind == 'S' and first < bytes then
					offset, sum = struct.unpack('<I4I4', raw, first)
					if base + offset == bound then
						local old, r = (sum - before) % 4294967296, now % unit
						if old * unit >= 9007199254740992 then
							break
						end
						-- Of what follows it: with it there may be 2^32 or more.
						used = (total - sum) % 4294967296 + (edge == 'count' and old or edge == 'drop' and 0 or
							math.ceil(old * (unit - r) / unit))
					end
				end
			end
		end
		local room, allowed = used < quota and quota - used or 0, 1
		if cost > room then
			allowed = 0
		end
		-- An instant before the last charge, counts of a larger quota than this one, a bucket at the edge that weighs
		-- less and less, and two waits at once are for the others.
		if last > now or prev * width >= 9007199254740992 or
				(allowed == 0 or each) and (edge == 'weighted' and kind == 'S') or
				allowed == 0 and each and cost ~= room + 1 then
			break
		end
		if allowed == 0 and charging then
			charging = false
			if i > 1 then
				i, reply = -1, nil
			end
		end
		if i > 0 then
			if charging then
				local ends
				room, used = room - cost, used + cost
				if not reach then
					ends = cur == 0 and (kind == 'F' and 1 or 2) * width - e
					cur = cur + cost
					written = struct.pack('<dI4I4', now, cur, prev)
				else
					local upto = -1
					if kind == 'L' then
						ends, slack = width, slack < width and width or slack
					elseif newest ~= position or not raw then
						ends = (position + width / unit + 1) * unit - now
					end
					if not raw or first > #raw then
						before, base, first = total, position, 1045
					elseif newest == position then
						upto = -9
					elseif #raw - first >= 1023 then
						break
					end
					total = (total + cost) % 4294967296
					written = struct.pack('<dI4I4I4dc0I4I4', now, 0, 0, before, base,
						raw and raw:sub(first, upto) or '', position - base, total)
					raw, newest, first = written, position, 29
				end
				if fields then
					fields[i + 1] = written
				end
				if ends and ends > lives then
					lives = ends
				end
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
				if reach then
					offset, sum = struct.unpack('<I4I4', raw, first)
					while (total - sum) % 4294967296 > quota - want do
						first = first + 8
						offset, sum = struct.unpack('<I4I4', raw, first)
					end
					wait = (base + offset + reach) * unit - now
				elseif kind == 'F' then
					wait = width - e
				else
					local spare, weighs = quota - cur - want, prev
					wait = width - e
					if spare < 0 then
						spare, weighs, wait = quota - want, cur, wait + width
					end
					local share = spare * width
					local whole = math.floor(share / weighs)
					wait = wait - whole
					if rules or each == 'EXACT' then
						over = math.floor((share - whole * weighs) * 1000000 / weighs)
					end
				end
				next = wait
				retry = allowed == 0 and wait or 0
			elseif want then
				retry = -1
			end
			if reach then
				reset = used > 0 and (newest + reach) * unit - now or 0
			elseif cur ~= 0 then
				reset = (kind == 'F' and 1 or 2) * width - e
			elseif prev ~= 0 then
				reset = width - e
			end
			if packed then
				reply = struct.pack('<BI4I4dddI4', allowed, quota, room, retry, reset, next, retry > 0 and over or 0)
			elseif each then
				reply = reply or {}
				reply[(i + 1) / 2] = {allowed, quota, room, retry, reset, 0, next,
					each == 'EXACT' and (retry > 0 and over or 0) or nil}
			elseif not rules then
				reply = {allowed, quota, room, retry, reset, 0, 0}
			else
				if allowed == 1 then
					if all == 1 and (index < 0 or room < least) then
						index, all_quota = (i - 1) / 2, quota
					end
				elseif all == 1 or longest ~= -1 and
						(retry == -1 or retry > longest or retry == longest and over < finely) then
					all, index, all_quota, longest, finely = 0, (i - 1) / 2, quota, retry, over
				end
				least = room < least and room or least
				all_reset = reset > all_reset and reset or all_reset
			end
		end
		i = i + 2
	until i > count
	if i <= count then
		break
	elseif charging then
		-- The key has to live as long as the counters matter: without an expiry, where it has none already.
		ttl = ttl or lives > 0 and redis.call('PTTL', key)
		local added = fields and redis.pcall('HSET', key, unpack(fields, 1, count)) or
			redis.pcall('HSET', key, field, written)
		if added ~= 0 and added ~= 1 and type(added) ~= 'number' then
			break
		elseif lives > 0 and ttl ~= -1 then
			if set and ttl < lives + 3600000 then
				redis.call('PEXPIRE', key, string.format('%.0f', lives + slack + 3600000))
			elseif not set and ttl < lives then
				redis.call('PEXPIREAT', key, string.format('%.0f', now + lives + (ttl > 0 and slack or 0)))
			end
		end
	end
	return reply or {all, all_quota, least, longest, all_reset, 0, index}
until true
