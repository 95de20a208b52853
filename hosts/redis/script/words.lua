-- The words of a call, checked before anything is read or written:
--
--   [cost] [id] [ttl_ms] .. items                            what a command has in front: commands.lua
--   items := item item ...                                   at most 16
--   item  := [KEY k] [NAME n] [OBSERVED | TRIED] limit
--
-- and, where the command takes them:
--
--   AT ms        the instant, before the first limit
--   EACH, EXACT  answer a row for each limit, with what NEXT asks; EXACT to the nanosecond
--   MEMBER m     who is counted by the distinct limits after it, until the next one; the first also by those before it
--   UPTO         grant the largest part of the cost that is admitted
--   ID token     a retry by the same token is charged once; of ACQUIRE the lease's name
--   NEXT         answer also when one more is admitted, after all else
--   KEEP         what is not charged of a hold stays held
--   BESIDE id    decide as if there were no hold of that id
--
-- All keys stand in KEYS, the first of them the one that limits count for until a KEY names another.
local numbers, notation, errors = need('numbers'), need('notation'), need('errors')
local raise = errors.raise
local words = {}

-- A number of so many digits, as messages show it: .. would turn one of 15 digits into 1e+14.
local function text_of(n)
	return string.format('%.0f', n)
end

-- Reads a whole number from `least` to `most` (< 2^53).
function words.number(call, what, least, most)
	local text = call.args[call.at]
	local n = numbers.read(text, least, most)
	if not n then
		raise(what .. ' ' .. (text and errors.shown(text) or 'is missing') .. ': expected a whole number from ' ..
			text_of(least) .. ' to ' .. text_of(most))
	end
	call.at = call.at + 1
	return n
end

-- Reads the id of a hold, as it is kept: 16 digits.
function words.id(call)
	local text = call.args[call.at]
	if not text or #text < 1 or #text > 16 or not text:find('^%x+$') then
		raise('id ' .. (text and errors.shown(text) or 'is missing') .. ': expected 1 to 16 hex digits')
	end
	call.at = call.at + 1
	return ('0'):rep(16 - #text) .. text:lower()
end

-- The fingerprint of a member, however long: 8 bytes. Unlike a server this doesn't fold a long one: SHA-256 in Lua
-- takes milliseconds.
function words.fingerprint(text)
	return (redis.sha1hex(text):sub(1, 16):gsub('..', function(digits)
		return string.char(tonumber(digits, 16))
	end))
end

local function server_clock(call)
	local time = redis.call('TIME')
	local us = tonumber(time[2])
	call.us = us % 1000
	call.now = time[1] * 1000 + (us - call.us) / 1000
end

local function no_limit(key)
	raise('no limit for key ' .. errors.shown(key) .. ': expected at least one after it, such as 100/60s')
end

-- What stands after a word, of `least` to `most` bytes.
local function argument(call, word, least, most, what)
	local text = call.args[call.at]
	if not text then
		raise(word .. ' needs ' .. what .. ' after it')
	elseif #text < least or #text > most then
		raise(word .. ' ' .. errors.shown(text) .. ': expected ' .. (least > 0 and least .. ' to ' or 'at most ') ..
			most .. ' bytes')
	end
	call.at = call.at + 1
	return text
end

-- The key that KEY names.
local function next_key(call, keys)
	local key = argument(call, 'KEY', 0, math.huge, 'a key and at least one limit')
	for i = 1, #keys do
		if keys[i] == key then
			return key
		end
	end
	raise('KEY ' .. errors.shown(key) .. ': expected one of the keys that the call passes as keys, so that a ' ..
		'cluster finds it')
end

-- Reads AT's instant.
local function instant(call, begun)
	if not CLIENT_TIME then
		raise('AT is not allowed here: load the script that was built with --client-time')
	elseif call.set or begun then
		raise(begun and 'AT after a limit: expected it before the first one' or 'AT twice: expected it once')
	end
	call.now, call.set, call.us = words.number(call, 'AT', 0, 9223372036854), true, 0
end

-- Reads a word that the whole call has; who is counted from here on, where it is MEMBER.
local function aside(call, word)
	local name = word:lower()
	if word == 'TERMS' then
		raise('TERMS: penalties and count-denied need the module or a server: a script has none')
	elseif word == 'COST' or word == 'TTL' then
		raise(word .. ' is for reservations: they need the module or a server: a script has none')
	elseif not call.takes:find(' ' .. word .. ' ', 1, true) then
		raise(word .. ' is no word of SLUICE.' .. call.word)
	elseif word == 'MEMBER' then
		return words.fingerprint(argument(call, word, 0, math.huge, 'who it is'))
	elseif call[name] then
		raise(word .. ' twice: expected it once')
	end
	call[name] = word == 'ID' and argument(call, word, 1, 64, 'a token') or word == 'BESIDE' and words.id(call) or true
end

local function is_aside(word)
	return word == 'EACH' or word == 'EXACT' or word == 'UPTO' or word == 'MEMBER' or word == 'ID' or word == 'NEXT' or
		word == 'KEEP' or word == 'BESIDE' or word == 'TERMS' or word == 'COST' or word == 'TTL'
end

-- Refuses what a command can't do with such a limit.
local function check(call, item, number)
	local kind, word = item.limit.kind, call.word
	if kind == 'N' and not call.leases then
		raise('limit ' .. number .. (word == 'REFUND' and ': concurrency takes no refund: SLUICE.RELEASE ends a ' ..
			'lease, SLUICE.RESET all that is counted' or ': concurrency is acquired and released: SLUICE.ACQUIRE'))
	elseif kind == 'D' and call.holds then
		raise('limit ' .. number .. ': distinct is not held: SLUICE.CHECK with MEMBER decides it at once')
	elseif kind == 'D' and not item.member and call.takes:find(' MEMBER ', 1, true) and word ~= 'PEEK' then
		raise('limit ' .. number .. ': distinct counts members: expected MEMBER and the member, as in SLUICE.' ..
			word .. ' key 1 MEMBER 192.0.2.1 "distinct 50/1h"')
	end
end

-- Reads a limit, for a key and with the words in front of it.
local function read_item(call, number, text, key, name, part, member)
	if number > 16 then
		raise('too many limits: at most 16 in one request')
	end
	local limit = notation.read(text) or need('grammar')(text, number)
	local field, held_field = limit.field, limit.held_field
	if name and field then
		field = notation.field_of(limit, name)
		held_field = '!' .. field
	end
	return {key = key, limit = limit, field = field, held_field = held_field, counter = false, v = false,
		admits = false, delay = 0, short = false, member = member, observed = part, tried = part == 'TRIED'}
end

-- Whether a limit stands for each of several keys.
local function check_keys(keys, items, count)
	local named = {}
	for i = 1, count do
		named[items[i].key] = true
	end
	for i = 1, #keys do
		if not named[keys[i]] then
			no_limit(keys[i])
		end
	end
end

-- Whether an item asks for a member that is to be counted.
local function has_member(item)
	return item.member and item.limit.kind == 'D' and not item.tried
end

-- A counter is charged once a call: of two members only one would be counted. Observed limits deny nobody, so they may.
local function check_member(items, number)
	local item = items[number]
	for i = 1, has_member(item) and number - 1 or 0 do
		local other = items[i]
		if has_member(other) and other.key == item.key and other.field == item.field and
			other.member ~= item.member and not (item.observed and other.observed) then
			raise('limit ' .. number ..
				': another member of the same counter: expected one, and a call for each of the others')
		end
	end
end

-- Reads the items, and what stands among them, from here to the end; the instant is the server's where AT says none.
function words.items(call, keys)
	local args, items, count, key, used, first = call.args, {false, false, false, false}, 0, keys[1], false, nil
	local name, part, member
	local text = args[call.at]
	while text do
		local word = #text <= 8 and not text:find('/', 1, true) and text:upper()
		call.at = call.at + 1
		if word == 'KEY' then
			if name or part then
				raise('KEY after NAME, OBSERVED or TRIED: expected a limit, and KEY in front of them')
			elseif not used then
				no_limit(key)
			end
			key, used = next_key(call, keys), false
		elseif word == 'NAME' then
			name = argument(call, word, 1, 64, 'the name of a limit')
		elseif word == 'OBSERVED' or word == 'TRIED' then
			part = word
		elseif word == 'AT' then
			instant(call, count > 0)
		elseif word and is_aside(word) then
			member = aside(call, word) or member
			first = first or member
		else
			count, used = count + 1, true
			items[count] = read_item(call, count, text, key, name, part, member)
			name, part = nil, nil
		end
		text = args[call.at]
	end
	if name or part then
		raise('NAME, OBSERVED and TRIED need a limit after them')
	elseif not used then
		no_limit(key)
	elseif keys[2] then
		check_keys(keys, items, count)
	end
	for i = count + 1, 4 do
		items[i] = nil
	end
	for i = 1, count do
		local item = items[i]
		local steps = item.limit.steps
		if steps and steps.find then
			item.member = item.member or first
			check(call, item, i)
			check_member(items, i)
		end
	end
	call.items, call.each = items, call.each or call.exact
	if call.next and call.each then
		raise('NEXT and EACH: expected one of them; EACH includes it for each limit')
	end
	if not call.set then
		server_clock(call)
	end
end

return words
