-- Whole numbers in a Lua number, which holds them exactly below 2^53.
--
-- Of quotients: with whole a, b >= 1 and a + b < 2^54 the rounded a / b lies on the same side of every whole number as
-- the true one (they are 1/b apart at least, and half a unit in the last place is less), so math.floor(a / b) and, for
-- a < 2^53, math.ceil(a / b) are exact. Of products: if the rounded a * b is below 2^53, it is exact.
local MOST = 9007199254740992

-- floor(a * b / d) and the remainder, for a < 2^32, b < 2^39, d < 2^39 and a quotient below 2^53: at once where the
-- product fits, else a digit of 13 bits at a time, so that no number on the way passes 2^53.
local function share(a, b, d)
	local product = a * b
	if product < MOST then
		local quotient = math.floor(product / d)
		return quotient, product - quotient * d
	end
	local quotient, rest, unit = 0, 0, 67108864
	while unit >= 1 do
		local digit = math.floor(a / unit)
		a = a - digit * unit
		product = rest * 8192 + digit * b
		local part = math.floor(product / d)
		quotient, rest = quotient * 8192 + part, product - part * d
		unit = unit / 8192
	end
	return quotient, rest
end

local function share_up(a, b, d)
	local quotient, rest = share(a, b, d)
	return rest > 0 and quotient + 1 or quotient
end

-- Digits to a number from `least` to `most` (< 2^53), or nil.
local function read(text, least, most)
	local n = text and #text <= 20 and text:find('^%d+$') and tonumber(text)
	return n and n >= least and n <= most and n or nil
end

-- Whether a number that was read back could be an instant or a debt: whole, 0..2^53 - 1.
local function sound(n)
	return n >= 0 and n < MOST and n % 1 == 0
end

return {share = share, share_up = share_up, read = read, sound = sound}
