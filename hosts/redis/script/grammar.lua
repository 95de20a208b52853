-- The one notation for limits, as src/algo/notation.c reads it:
--
--   limit    = "unlimited" | [algorithm " "] quota "/" duration *( " " option " " value )
--            | "concurrency " quota " lease " duration
--   quota    = digits [ k | M | G ]              0..4294967295 after the multiplier
--   duration = digits ( ms | s | m | h | d | w ) 1 ms..3660 d
--
-- notation.lua says what a limit read is, and reads what is usual; this reads the rest, and says what is wrong with a
-- mistake: it is raised with its column.
local numbers, errors, notation = need('numbers'), need('errors'), need('notation')
local grammar = {}

local KINDS = {
	['fixed-window'] = 'F', ['sliding-window'] = 'W', ['sliding-buckets'] = 'S', ['sliding-log'] = 'L',
	['token-bucket'] = 'T', ['leaky-bucket'] = 'K', concurrency = 'N', distinct = 'D', unlimited = 'U',
}

local UNITS = {w = 604800000, d = 86400000, h = 3600000, m = 60000, s = 1000, ms = 1}
local LARGEST_FIRST = {'w', 'd', 'h', 'm', 's', 'ms'}
local FACTORS = {k = 1000, M = 1000000, G = 1000000000}
local WINDOW_MOST = 3660 * 86400000
local PARTS_MOST = 4096

-- A reader is {text, at, number}: number of the limit in its call.
local function fail(reader, at, expected)
	local word = reader.text:match('^[^ ]+', at) or reader.text:sub(at, at)
	local found = at > #reader.text and 'the end' or errors.shown(word, 40)
	errors.raise('ERR limit ' .. reader.number .. ', column ' .. at .. ': ' .. expected .. ', found ' .. found)
end

local function digits(reader, expected)
	local text = reader.text:match('^%d+', reader.at)
	if not text then
		fail(reader, reader.at, expected)
	end
	reader.at = reader.at + #text
	return tonumber(text)
end

local function read_quota(reader, expected)
	local start = reader.at
	local n = digits(reader, expected)
	local factor = FACTORS[reader.text:sub(reader.at, reader.at)]
	if factor then
		reader.at = reader.at + 1
	end
	n = n * (factor or 1)
	if n > notation.most then
		fail(reader, start, 'expected at most 4294967295')
	end
	return n
end

local function read_duration(reader, expected)
	local start = reader.at
	local n = digits(reader, expected)
	local unit = reader.text:sub(reader.at, reader.at + 1)
	if unit ~= 'ms' then
		unit = unit:sub(1, 1)
	end
	if not UNITS[unit] then
		fail(reader, reader.at, 'expected a unit of time: ms, s, m, h, d or w')
	end
	reader.at = reader.at + #unit
	n = n * UNITS[unit]
	if n < 1 or n > WINDOW_MOST then
		fail(reader, start, 'expected a duration from 1ms to 3660d')
	end
	return n
end

local function read_algorithm(reader, limit)
	local word = reader.text:match('^[^ ]*')
	limit.algorithm = 'sliding-window'
	if word:find('^%d') then
		return
	end
	if not KINDS[word] then
		fail(reader, 1, 'expected a limit such as 100/1m, or an algorithm: fixed-window, sliding-window, ' ..
			'sliding-buckets, sliding-log, token-bucket, leaky-bucket, concurrency, distinct or unlimited')
	end
	limit.algorithm = word
	reader.at = #word + 1
	if word == 'unlimited' then
		if reader.at <= #reader.text then
			fail(reader, reader.at, "expected nothing after 'unlimited'")
		end
		return
	end
	if reader.text:sub(reader.at, reader.at) ~= ' ' then
		fail(reader, reader.at, 'expected a space and a quota such as 100/1m')
	end
	reader.at = reader.at + 1
end

local function read_rate(reader, limit)
	limit.quota = read_quota(reader, 'expected a quota such as 100 or 5k')
	if reader.text:sub(reader.at, reader.at) ~= '/' then
		fail(reader, reader.at, "expected '/' and a window such as 1m (multipliers: k, M, G)")
	end
	reader.at = reader.at + 1
	local unit = reader.text:match('^%l+', reader.at)
	if unit == 'hour' or unit == 'day' or unit == 'week' or unit == 'month' or unit == 'year' then
		fail(reader, reader.at, 'expected a window such as 10s or 1m: those of the calendar need the module, or a ' ..
			'server, since a script has no time zones')
	end
	limit.window = read_duration(reader, 'expected a window such as 10s or 1m')
end

-- concurrency N lease T
local function read_leases(reader, limit)
	limit.quota = read_quota(reader, 'expected how many may be in flight, such as 20')
	if reader.text:sub(reader.at, reader.at + 6) ~= ' lease ' then
		fail(reader, reader.at, "expected the option 'lease' and its duration, such as lease 30s")
	end
	reader.at = reader.at + 7
	limit.window = read_duration(reader, 'expected how long a lease lasts, such as 30s')
	if reader.at <= #reader.text then
		fail(reader, reader.at, 'expected the end')
	end
end

-- A list of members in a hash is exact; what would serve for more is not kept by a script.
local MEMBERS_MOST = 1024

local function check_members(reader, limit)
	if limit.quota > MEMBERS_MOST then
		fail(reader, 10, 'expected at most 1024 members in a script: more need the module, or a server')
	end
end

-- Each option: whose it is, and how its value is read.
local options = {}

options.burst = {'token-bucket', function(reader, limit)
	local start = reader.at
	limit.burst = read_quota(reader, 'expected a burst such as 100 or 5k')
	if limit.burst == 0 then
		fail(reader, start, 'expected a burst of at least 1')
	end
end}

options.queue = {'leaky-bucket', function(reader, limit)
	limit.burst = read_quota(reader, 'expected a queue such as 50 or 5k')
end}

options.precision = {'sliding-buckets', function(reader, limit)
	local start = reader.at
	limit.precision = read_duration(reader, 'expected a precision such as 1s')
	if limit.window % limit.precision ~= 0 then
		fail(reader, start, 'expected a precision that divides the window')
	end
	limit.parts = limit.window / limit.precision
	if limit.parts < 2 or limit.parts > PARTS_MOST then
		fail(reader, start, 'expected a precision that divides the window into 2 to 4096 parts')
	end
end}

options.edge = {'sliding-buckets', function(reader, limit)
	local word = reader.text:match('^[^ ]*', reader.at)
	if word ~= 'count' and word ~= 'drop' and word ~= 'weighted' then
		fail(reader, reader.at, 'expected an edge: count, drop or weighted')
	end
	limit.edge = word
	reader.at = reader.at + #word
end}

local EXPECTED = {
	['token-bucket'] = "expected the option 'burst', once",
	['leaky-bucket'] = "expected the option 'queue', once",
	['sliding-buckets'] = "expected the options 'precision' and 'edge', once each",
}

local function read_option(reader, limit, seen)
	if reader.text:sub(reader.at, reader.at) ~= ' ' then
		fail(reader, reader.at, 'expected a space or the end')
	end
	if reader.at == #reader.text then
		fail(reader, reader.at, 'expected the end')
	end
	reader.at = reader.at + 1
	local word = reader.text:match('^[^ ]*', reader.at)
	local option = options[word]
	if not option or option[1] ~= limit.algorithm or seen[word] then
		fail(reader, reader.at, EXPECTED[limit.algorithm] or
			(option and "expected the end: '" .. word .. "' belongs to " .. option[1] .. ' ...') or
			'expected the end: this algorithm has no options')
	end
	if limit.quota == 0 and limit.algorithm ~= 'sliding-buckets' then
		fail(reader, reader.at, 'expected no option: a quota of 0 denies all and has none')
	end
	seen[word] = true
	reader.at = reader.at + #word
	if reader.text:sub(reader.at, reader.at) ~= ' ' then
		fail(reader, reader.at, "expected a space and the option's value")
	end
	reader.at = reader.at + 1
	option[2](reader, limit)
end

local function read_options(reader, limit)
	local seen = {}
	while reader.at <= #reader.text do
		read_option(reader, limit, seen)
	end
	if limit.algorithm == 'sliding-buckets' then
		if not limit.precision then
			fail(reader, reader.at, "expected the option 'precision', such as precision 1s")
		end
		limit.edge = limit.edge or 'count'
	elseif EXPECTED[limit.algorithm] then
		limit.burst = limit.burst or limit.quota
	end
end

local function duration_text(ms)
	for _, unit in ipairs(LARGEST_FIRST) do
		if ms % UNITS[unit] == 0 then
			return numbers.text(ms / UNITS[unit]) .. unit
		end
	end
end

-- What decisions need of a limit, beside what was read.
local function derive(limit)
	limit.kind = KINDS[limit.algorithm]
	limit.way = limit.kind ~= 'U' and notation.way_of(limit.kind)
	limit.capacity = limit.quota
	return limit.burst and need('options').derive(limit)
end

-- Reads the limit that is the `number`-th of its call.
function grammar.limit(text, number)
	local reader, limit = {text = text, at = 1, number = number}, {}
	read_algorithm(reader, limit)
	if limit.algorithm == 'unlimited' then
		limit.quota = notation.most
	elseif limit.algorithm == 'concurrency' then
		read_leases(reader, limit)
	else
		read_rate(reader, limit)
		read_options(reader, limit)
	end
	if limit.algorithm == 'distinct' then
		check_members(reader, limit)
	end
	local most = derive(limit)
	if most then
		local leaky = limit.algorithm == 'leaky-bucket'
		errors.raise('ERR limit ' .. number .. ', ' .. errors.shown(text) ..
			': its numbers leave the 53 bits that a script counts in: with a window of ' ..
			duration_text(limit.window) .. ' the ' .. (leaky and 'queue' or 'burst') .. ' is at most ' ..
			numbers.text(leaky and most - 1 or most) ..
			'; use a shorter window, or the module')
	end
	if limit.kind ~= 'U' then
		limit.field = notation.field_of(limit)
		limit.holds_field = '!' .. limit.field
	end
	return notation.keep(text, limit)
end

return grammar
