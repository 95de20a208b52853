/* A lock word, its theft from the dead, and the rows of the process table (docs/design/009-locking.md).
 *
 * Processes that take one lock CALLS times each. Any of them may die at any step; another one then starts in its stead,
 * and may be given its row. The kernel drops the row's byte with the death, and answers who holds it; nothing else is
 * known of the owner.
 *
 * Checked:
 *   L1  of living processes at most one is inside
 *   L2  whoever gets the lock by finding it free finds what it guards whole; a thief is told, and makes it whole
 *   L3  every call of a live process ends, however often owners and thieves die
 *   L4  no living process's row and generation are those of another, nor of anyone who has died
 *
 *   L5  with HALTS: the same where an owner is stopped for good, with its byte held; nobody robs it. (One that is stopped
 *       and goes on is one that takes no step for a while, as any may here.) A waiter may give up whenever its owner is
 *       alive: then it holds nothing
 *
 * L3 twice: as written, a waiter that has learned nothing waits for a change of what it has looked at, since looking
 * again would tell it the same; then a hang is an invalid end state. With -DBUSY it asks and asks, and a hang is a
 * cycle without progress under weak fairness (pan -l -f): there is no label of progress, and all calls are counted, so
 * any fair cycle is a hang.
 * Negative variants: see test_models.py. */

#ifndef PROCESSES
#define PROCESSES 3
#endif
#ifndef CALLS
#define CALLS 1
#endif
#ifndef DEATHS
#define DEATHS 2
#endif
#ifndef HALTS
#define HALTS 0
#endif
#define ROWS PROCESSES
#define NOBODY 255

/* Row from 1 on; generations from 1 on: DEATHS are too few to wrap them. */
#define WORD(row, gen) ((row) * 16 + (gen))
#define ROW(word) ((word) >> 4)
#define GENERATION(word) ((word) & 15)

/* The arena. */
byte lock;
byte generation[ROWS + 2];
bool half_done; /* what the lock guards */

/* The kernel's: the byte of a row is locked. */
bool held[ROWS + 2];

/* Not of either. */
byte inside = NOBODY, deaths, halts;
bool halted[PROCESSES];
byte row_of[PROCESSES];
bool dead[PROCESSES];
byte last_word[ROWS + 2]; /* the latest word of each row that was used */

/* Finds a row that is free, and makes it ours. */
inline attach() {
#ifdef BUMP_FIRST
	row = 1;
	do
	:: row <= ROWS ->
		generation[row]++; /* before it is known that the row is free */
		if
		:: d_step { !held[row] -> held[row] = true; row_of[me] = row } break
		:: else -> row++
		fi
	od;
#else
	atomic {
		row = 1;
		do
		:: held[row] -> row++
		:: else -> break
		od;
		held[row] = true;
		row_of[me] = row
	};
#ifdef USE_FIRST
	mine = WORD(row, generation[row]);
#elif !defined(NO_GENERATION)
	new = generation[row] + 1;
	generation[row] = new;
#endif
#endif
#ifndef USE_FIRST
	mine = WORD(row, generation[row]);
#endif
	d_step {
#ifndef NO_GENERATION
		assert(last_word[row] < mine); /* L4 */
#endif
		last_word[row] = mine;
		new = 0
	}
}

/* Whether the owner that `seen` names is gone. */
inline ask() {
	gone = false;
#ifdef NO_GENERATION
	gone = !held[ROW(seen)];
#else
	if
	:: generation[ROW(seen)] != GENERATION(seen) -> gone = true
#ifndef NO_KERNEL
	:: else -> gone = !held[ROW(seen)]
#else
	:: else
#endif
	fi
#endif
}

/* Not before one of what was looked at has changed. */
inline wait() {
#ifndef BUSY
	lock != seen || !held[ROW(seen)] || generation[ROW(seen)] != GENERATION(seen)
#else
	skip
#endif
}

inline enter(stolen) {
	assert(inside == NOBODY); /* L1 */
	inside = me;
	assert(stolen || !half_done) /* L2 */
}

inline take() {
	do
#ifdef ROB_HALTED
	:: atomic { lock != 0 && halts > 0 && inside != NOBODY && halted[inside] -> lock = mine; enter(true); seen = 0 } break
#endif
	:: atomic { lock == 0 -> lock = mine; enter(false); seen = 0 } break
	:: atomic { lock != 0 -> seen = lock };
		ask();
		if
		:: gone ->
			gone = false;
			if
#ifdef STEAL_BLINDLY
			:: atomic { true -> lock = mine; enter(true); seen = 0 };
#else
			:: atomic { lock == seen -> lock = mine; enter(true); seen = 0 };
#endif
#ifndef NO_RECOVERY
				half_done = false;
#endif
				break
#ifndef STEAL_BLINDLY
			:: atomic { lock != seen -> seen = 0 }
#endif
			fi
		:: else ->
#if HALTS > 0 && !defined(NO_BOUND)
			if
			:: wait(); seen = 0
			:: atomic { lock == seen -> gave_up = true; seen = 0 } break
			fi
#else
			wait();
			seen = 0
#endif
		fi
	od
}

proctype caller(byte me) {
	byte row, mine, seen, new, calls;
	bool gone, gave_up;
again:
	{
		attach();
		do
		:: calls < CALLS ->
			take();
			if
			:: gave_up ->
#ifdef UNLOCK_GIVEN_UP
				lock = 0;
#endif
				d_step { assert(lock != mine && inside != me); gave_up = false; calls++ } /* L5 */
			:: else ->
				assert(!half_done); /* L2 */
				half_done = true;
				half_done = false;
				d_step { lock = 0; inside = NOBODY; calls++ }
			fi
		:: else -> break
		od
	} unless {
		if
		:: d_step { dead[me] -> dead[me] = false; row = 0; mine = 0; seen = 0; new = 0; calls = 0; gone = false;
			gave_up = false }
			goto again
#if HALTS > 0
		:: halted[me] ->
end_halted:		false
#endif
		fi
	}
}

/* What a kernel does. A process that has ended by itself stays attached. */
#define KILL(p) d_step { \
	deaths < DEATHS && row_of[p] != 0 && !halted[p] -> \
	held[row_of[p]] = false; \
	row_of[p] = 0; \
	dead[p] = true; \
	deaths++; \
	if \
	:: inside == p -> inside = NOBODY \
	:: else \
	fi }

#define HALT(p) d_step { halts < HALTS && inside == p && lock != 0 -> halted[p] = true; halts++ }

init {
	byte p;
	atomic {
		do
		:: p < PROCESSES -> run caller(p); p++
		:: else -> break
		od;
		p = 0
	};
end:	do
	:: KILL(0)
	:: KILL(1)
#if PROCESSES > 2
	:: KILL(2)
#endif
#if HALTS > 0
	:: HALT(0)
	:: HALT(1)
#if PROCESSES > 2
	:: HALT(2)
#endif
#endif
	od
}
