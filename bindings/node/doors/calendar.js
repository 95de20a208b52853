/* How long the present window of a limit of the calendar is, such as `1M/month at Europe/Berlin`. src/algo/calendar.c
 * says what such windows are; here the clocks of a zone are asked of the runtime.
 *
 * A date begins at the first instant at which the zone's clocks show it or a later one. Hours are an hour each (where
 * clocks are set by half an hour, as on Lord Howe, one of them is shorter: that is not told here). */
'use strict';

const SECOND_MS = 1000, DAY_MS = 86400000, HOUR_S = 3600;

/** What a zone's clocks are ahead of UTC at an instant, in ms; throws where the runtime does not know the zone. */
function clocksOf(zone) {
	const format = new Intl.DateTimeFormat('en-US', { timeZone: zone, hourCycle: 'h23', year: 'numeric',
		month: 'numeric', day: 'numeric', hour: 'numeric', minute: 'numeric', second: 'numeric' });
	return (at) => {
		const said = Object.fromEntries(format.formatToParts(at).map(({ type, value }) => [type, Number(value)]));
		return Date.UTC(said.year, said.month - 1, said.day, said.hour, said.minute, said.second) -
			Math.floor(at / SECOND_MS) * SECOND_MS;
	};
}

/** The instant at which a date begins; day: its number from 1970-01-01. */
function startOf(ahead, day) {
	const local = day * DAY_MS, before = ahead(local - 2 * DAY_MS), start = local - before;
	let from = local - 2 * DAY_MS, to = start;
	if (ahead(start - SECOND_MS) === before)
		return start;
	while (to - from > SECOND_MS) { /* clocks were set in between: when? */
		const middle = from + Math.floor((to - from) / 2 / SECOND_MS) * SECOND_MS;
		if (ahead(middle) === before)
			from = middle;
		else
			to = middle;
	}
	return Math.max(to, local - ahead(to));
}

/** The first days of the unit that a day is in, and of the next. */
function daysAround(unit, day) {
	const date = new Date(day * DAY_MS), year = date.getUTCFullYear(), month = date.getUTCMonth();
	const monday = Math.floor((day + 3) / 7) * 7 - 3; /* 1970-01-01 was a Thursday */
	if (unit === 'day')
		return [day, day + 1];
	if (unit === 'week')
		return [monday, monday + 7];
	return (unit === 'month' ? [[year, month], [year, month + 1]] : [[year, 0], [year + 1, 0]])
		.map(([y, m]) => Date.UTC(y, m) / DAY_MS);
}

function spanOf(unit, zone, now) {
	const ahead = clocksOf(zone), day = Math.floor((now + ahead(now)) / DAY_MS);
	/* where clocks were put back over midnight, it is the new day that goes on */
	const days = daysAround(unit, startOf(ahead, day + 1) <= now ? day + 1 : day);
	const [start, end] = days.map((first) => startOf(ahead, first));
	return { start, end };
}

/** Its seconds; undefined where the runtime does not know the zone.
 *  of  {unit, zone}, and the span that was found last, which is kept here */
function windowOf(of, now) {
	if (of.unit === 'hour')
		return HOUR_S;
	try {
		if (!(now >= of.start && now < of.end))
			Object.assign(of, spanOf(of.unit, of.zone, now));
	} catch {
		return undefined;
	}
	return (of.end - of.start) / SECOND_MS;
}

module.exports = { windowOf };
