/* Blocks: the undo log, logs that grow, slots with a block that are claimed and freed, and recovery, with owners that
 * die anywhere (docs/design/009-locking.md).
 *
 * Two homes with a slot each, four blocks. A call charges one log or both as one step, each into a new block, or
 * evicts a log into the sketch. A death ends a process between any two stores; an aligned store of 16 bytes is one
 * step. Locks are taken here in one step, from the dead too: lock.pml shows that this is what waiting comes to.
 * A wait is a guard, so a call that could hang is an invalid end state.
 *
 * Checked:
 *   B1  no change open: every taken block is referred to by exactly one slot, every free one is in the list once
 *   B2  a log's entries are its own: its block holds what its state says
 *   B3  answered <= count <= charged for every counter that is found, or is remembered by the sketch
 *   B4  a lock that was free has no FRESH slot behind it, and no change is open behind a free blocks' lock
 *   B5  every call of a live process ends
 *   B6  with HALTS: an owner may be stopped for good, and is never robbed. Whoever waits for a lock may give up while its
 *       owner is alive: then it holds nothing, and what it leaves is as it was
 * Negative variants, each of which must be found: see test_models.py. */

#ifndef PROCESSES
#define PROCESSES 4
#endif
#ifndef ALIVE
#define ALIVE 1
#endif
#ifndef HEIRS
#define HEIRS 2
#endif
#ifndef DEATHS
#define DEATHS 2
#endif
#ifndef HALTS
#define HALTS 0
#endif
#if HALTS > 0 && !defined(NO_BOUND)
#define GIVES_UP
#endif
#define SLOTS 2
#define BLOCKS 4
#define UNDO_MAX 20

/* The arena: words by address. */
#define HEAD 0
#define MAP(b) (b)           /* 1..4: 1 is taken */
#define DATA(b) (4 + (b))    /* 5..8: entries, or, in a free one, the next free block */
#define COUNT(s) (9 + (s))   /* 9, 10: first word of the state */
#define BLOCK(s) (11 + (s))  /* 11, 12: second */
#define TAG(s) (13 + (s))    /* 13, 14 */
#define MORE(b) (14 + (b))   /* 15..18: the rest of the entries, which no undo log saves */
#define WORDS 19
#define FRESH 1
#define LIVE 2
#define ENTRIES(s, n) (16 * ((s) + 1) + (n)) /* no number of a block looks so */

byte mem[WORDS];
byte undo_at[UNDO_MAX], undo_old[UNDO_MAX], undo_count;
byte home_lock[SLOTS], blocks_lock; /* 0 or owner + 1 */
byte sketch[SLOTS];

/* Not of the arena. */
bool dead[PROCESSES], halted[PROCESSES];
byte halts;
byte answered[SLOTS], charged[SLOTS], deaths;

/* What a slot that is free, or FRESH, has for a state means nothing: others' inline states have been there. */
#define NAMES(s, b) (mem[TAG(s)] == LIVE && mem[BLOCK(s)] == (b))
#define GARBAGE 2

/* B1. */
inline check_blocks() {
	d_step {
		b = 1;
		do
		:: b <= BLOCKS ->
			assert(NAMES(0, b) + NAMES(1, b) == mem[MAP(b)]);
			b++
		:: else -> break
		od;
		b = mem[HEAD];
		n = 0;
		do
		:: b != 0 ->
			assert(b <= BLOCKS && mem[MAP(b)] == 0 && n < BLOCKS);
			n++;
			b = mem[DATA(b)]
		:: else -> break
		od;
		assert(n + mem[MAP(1)] + mem[MAP(2)] + mem[MAP(3)] + mem[MAP(4)] == BLOCKS);
		b = 0;
		n = 0
	}
}

/* Entries, then their number. Whoever dies in between has changed nothing: entries above the number are never read, and
 * those of words not yet written restore what is there. So what is saved at once is one step here. */
inline save(at) {
	assert(undo_count < UNDO_MAX);
	undo_at[undo_count] = at;
	undo_old[undo_count] = mem[at];
	undo_count++
}

inline save_run(b1) {
#ifdef COUNT_FIRST
	undo_count = undo_count + 3;
	d_step { undo_count = undo_count - 3; save(HEAD); save(MAP(b1)); save(DATA(b1)) }
#else
	d_step {
		save(HEAD);
		save(MAP(b1));
#ifndef NO_SAVE_LINK
		save(DATA(b1)) /* the caller will write over it */
#endif
	}
#endif
}

/* All of a slot that the change will write, its tag as well: whoever dies leaves it as it was, FRESH if it was. */
inline save_slot(s, with_tag) {
	d_step {
		old[s] = mem[BLOCK(s)];
#ifndef NO_SAVE_STATE
		save(COUNT(s));
		save(BLOCK(s));
#endif
		if
		:: with_tag -> save(TAG(s))
		:: else
		fi
	}
}

/* The log is over. What stands in it is never read again: cleared here for fewer states. */
inline forget() {
	i = 0;
	do
	:: i < undo_count -> undo_at[i] = 0; undo_old[i] = 0; i++
	:: else -> break
	od;
	i = 0;
	undo_count = 0
}

inline undo() {
#ifdef UNDO_FORWARD
	i = 0;
	do
	:: d_step { i < undo_count -> mem[undo_at[i]] = undo_old[i]; i++ }
	:: atomic { i == undo_count -> forget() -> break }
	od
#else
	i = undo_count;
	do
#ifdef UNDO_POPS
	:: i > 0 && undo_count == i -> undo_count-- /* lowered before the word is restored */
	:: d_step { i > 0 && undo_count < i -> mem[undo_at[i - 1]] = undo_old[i - 1]; i-- }
#else
	:: d_step { i > 0 -> mem[undo_at[i - 1]] = undo_old[i - 1]; i-- }
#endif
	:: atomic { i == 0 -> forget() -> break }
	od
#endif
}

inline begin() {
	if
	:: atomic { blocks_lock == 0 -> blocks_lock = me + 1; assert(undo_count == 0); /* B4 */ check_blocks() }
	:: atomic { blocks_lock != 0 && dead[blocks_lock - 1] -> blocks_lock = me + 1 };
#ifdef NO_UNDO
		forget();
#else
		undo();
#endif
		check_blocks()
#ifdef GIVES_UP
	:: atomic { blocks_lock != 0 && !dead[blocks_lock - 1] -> held_up = true }
#endif
	fi
}

/* `done`: bit s says that slot s is charged with this. */
inline commit(done) {
#ifdef UNLOCK_FIRST
	blocks_lock = 0;
#endif
	atomic {
		forget();
		charged[0] = charged[0] + ((done) & 1);
		charged[1] = charged[1] + ((done) >> 1)
	};
	blocks_lock = 0
}

inline abort() {
	undo();
	blocks_lock = 0;
	no_room = true
}

/* What its caller does with 0 is to abort. */
inline take(to) {
	to = mem[HEAD];
	if
	:: to != 0 ->
		save_run(to);
		mem[HEAD] = mem[DATA(to)];
		mem[MAP(to)] = 1
	:: else
	fi
}

inline give_back(which) {
	save_run(which);
	mem[DATA(which)] = mem[HEAD];
	mem[MAP(which)] = 0;
	mem[HEAD] = which
}

inline store16(s, low, high) {
	d_step { mem[COUNT(s)] = low; mem[BLOCK(s)] = high }
}

/* sl_slot_free(): of a counter. */
inline free_slot(s) {
	begin();
	if
	:: held_up -> held_up = false
	:: else ->
		save_slot(s, true);
#ifndef FREE_NOT_FRESH
		mem[TAG(s)] = FRESH; /* who dies after the commit leaves nothing that could be found */
#endif
		store16(s, 0, 0);
		give_back(old[s]);
		commit(0);
		free_tag(s)
	fi
}

inline free_tag(s) {
	d_step { mem[TAG(s)] = 0; mem[COUNT(s)] = GARBAGE; mem[BLOCK(s)] = GARBAGE; old[s] = 0 }
}

/* Whoever was not dead leaves no claim behind: B4, seen at once. */
inline unlock_home(s) {
	d_step { assert(mem[TAG(s)] != FRESH); home_lock[s] = 0 }
}

inline recover(s) {
#ifndef NO_UNDO_FIRST
	begin();
	if
	:: held_up
	:: else -> commit(0)
	fi;
#endif
	if
	:: held_up ->
#ifdef RECOVERY_DROPPED
		unlock_home(s)
#else
		home_lock[s] = was_lock /* for the next one who waits */
#endif
	:: else ->
	if
#ifdef RECOVER_FREES_BLOCK
	:: mem[TAG(s)] == FRESH && mem[BLOCK(s)] != 0 -> free_slot(s)
	:: mem[TAG(s)] == FRESH && mem[BLOCK(s)] == 0 -> free_tag(s)
#else
	:: mem[TAG(s)] == FRESH -> free_tag(s)
#endif
	:: else
	fi
	fi;
	was_lock = 0
}

inline lock_home(s) {
	if
	:: atomic { home_lock[s] == 0 -> home_lock[s] = me + 1; assert(mem[TAG(s)] != FRESH) } /* B4 */
	:: atomic { home_lock[s] != 0 && dead[home_lock[s] - 1] -> was_lock = home_lock[s]; home_lock[s] = me + 1 };
		recover(s)
#ifdef GIVES_UP
	:: atomic { home_lock[s] != 0 && !dead[home_lock[s] - 1] -> held_up = true }
#endif
	fi;
}

/* Finds or claims the counter, and knows its count. */
inline find_or_claim(s) {
	if
	:: mem[TAG(s)] == 0 ->
		mem[TAG(s)] = FRESH;
		store16(s, 0, 0);
		d_step { was[s] = sketch[s]; assert(answered[s] <= was[s] && was[s] <= charged[s]) } /* B3 */
	:: else ->
		d_step {
			was[s] = mem[COUNT(s)];
			assert(mem[TAG(s)] == LIVE);
			assert(answered[s] <= was[s] && was[s] <= charged[s]); /* B3 */
			assert(mem[BLOCK(s)] != 0 && mem[MAP(mem[BLOCK(s)])] == 1);
			assert(mem[DATA(mem[BLOCK(s)])] == ENTRIES(s, was[s])); /* B2 */
			assert(mem[MORE(mem[BLOCK(s)])] == ENTRIES(s, was[s]))
		}
	fi
}

inline publish(s) {
	mem[DATA(new[s])] = ENTRIES(s, was[s] + 1); /* entries copied, one added */
	mem[MORE(new[s])] = ENTRIES(s, was[s] + 1);
#ifdef NO_SAVE_TAG
	save_slot(s, false);
#else
	save_slot(s, true);
#endif
	store16(s, was[s] + 1, new[s]);
#ifndef TAG_AFTER_COMMIT
	mem[TAG(s)] = LIVE
#endif
}

inline free_old(s) {
	if
	:: old[s] != 0 -> give_back(old[s])
	:: else
	fi
}

inline give_up(s) {
	if
	:: mem[TAG(s)] == FRESH -> free_tag(s)
	:: else
	fi
}

inline answer(set) {
	d_step {
		if
		:: no_room || held_up
		:: else -> answered[0] = answered[0] + (set & 1); answered[1] = answered[1] + (set >> 1)
		fi;
		assert(home_lock[0] != me + 1 && home_lock[1] != me + 1 && blocks_lock != me + 1); /* B6 */
		new[0] = 0; new[1] = 0; old[0] = 0; old[1] = 0; was[0] = 0; was[1] = 0; no_room = false; held_up = false
	}
}

/* The blocks' lock was not had. */
inline give_back_claim(s) {
#ifndef KEEP_CLAIM
	give_up(s)
#else
	skip
#endif
}

inline charge_locked(s) {
	find_or_claim(s);
	begin();
	if
	:: held_up -> give_back_claim(s)
	:: else ->
		take(new[s]);
		if
		:: new[s] == 0 -> abort(); give_up(s)
		:: else ->
			publish(s);
			free_old(s);
			commit(1 << s)
#ifdef TAG_AFTER_COMMIT
			; mem[TAG(s)] = LIVE
#endif
		fi
	fi;
	unlock_home(s)
}

inline charge(s) {
	lock_home(s);
	if
	:: held_up
	:: else -> charge_locked(s)
	fi;
	answer(1 << s)
}

inline change_both() {
	take(new[0]);
#ifdef FREE_BEFORE_TAKE
	if
	:: new[0] != 0 -> publish(0); free_old(0)
	:: else
	fi;
#endif
	take(new[1]);
	if
	:: new[0] == 0 || new[1] == 0 -> abort(); give_up(0); give_up(1)
	:: else ->
#ifndef FREE_BEFORE_TAKE
		publish(0);
		publish(1);
		free_old(0);
#else
		publish(1);
#endif
		free_old(1);
		commit(3)
#ifdef TAG_AFTER_COMMIT
		; mem[TAG(0)] = LIVE; mem[TAG(1)] = LIVE
#endif
	fi
}

inline charge_both_locked() {
	find_or_claim(0);
	find_or_claim(1);
	begin();
	if
	:: held_up -> give_back_claim(0); give_back_claim(1)
	:: else -> change_both()
	fi;
	unlock_home(0);
	unlock_home(1)
}

inline charge_both() {
	lock_home(0);
	if
	:: held_up
	:: else ->
		lock_home(1);
		if
#ifdef KEEP_HOME
		:: held_up
#else
		:: held_up -> home_lock[0] = 0
#endif
		:: else -> charge_both_locked()
		fi
	fi;
	answer(3)
}

/* Of a home that is had by trying. */
inline evict(s) {
	if
	:: atomic { home_lock[s] == 0 -> home_lock[s] = me + 1; assert(mem[TAG(s)] != FRESH) };
		if
		:: mem[TAG(s)] == LIVE ->
			if
			:: sketch[s] < mem[COUNT(s)] -> sketch[s] = mem[COUNT(s)]
			:: else
			fi;
			free_slot(s)
		:: else
		fi;
		home_lock[s] = 0
	:: home_lock[s] != 0
	fi
}

/* ALIVE callers before the first death. After it others come: HEIRS at the first one, one more at the second. */
proctype caller(byte me) {
	byte b, n, i;
	byte new[SLOTS], old[SLOTS], was[SLOTS];
	byte was_lock;
	bool no_room, held_up;
endwait:
	me < ALIVE || (deaths > 0 && me < deaths + HEIRS);
	{
		if
		:: charge(0)
		:: me > 0 -> charge(1) /* both homes are the same to the first */
		:: charge_both()
		:: evict(0)
		:: me > 0 -> evict(1)
		fi
	} unless {
		if
		:: d_step { dead[me] -> b = 0; n = 0; i = 0; no_room = false; held_up = false; was_lock = 0;
			new[0] = 0; new[1] = 0; old[0] = 0; old[1] = 0; was[0] = 0; was[1] = 0 }
#if HALTS > 0
		:: halted[me] ->
end_halted:		false
#endif
		fi
	}
}

#define CAN_DIE(owner) ((owner) != 0 && !dead[(owner) - 1] && !halted[(owner) - 1])

init {
	byte p;
	atomic {
		mem[HEAD] = 3;
		mem[DATA(3)] = 4;
		mem[TAG(0)] = LIVE; mem[COUNT(0)] = 1; mem[BLOCK(0)] = 1; mem[MAP(1)] = 1; mem[DATA(1)] = ENTRIES(0, 1);
		mem[MORE(1)] = ENTRIES(0, 1);
		mem[TAG(1)] = LIVE; mem[COUNT(1)] = 1; mem[BLOCK(1)] = 2; mem[MAP(2)] = 1; mem[DATA(2)] = ENTRIES(1, 1);
		mem[MORE(2)] = ENTRIES(1, 1);
		answered[0] = 1; answered[1] = 1; charged[0] = 1; charged[1] = 1;
		p = 0;
		do
		:: p < PROCESSES -> run caller(p); p++
		:: else -> break
		od;
		p = 0
	};
	/* The one who kills: anybody who has a lock, at any time. */
end:	do
	:: d_step { deaths < DEATHS && CAN_DIE(blocks_lock) -> dead[blocks_lock - 1] = true; deaths++ }
	:: d_step { deaths < DEATHS && CAN_DIE(home_lock[0]) -> dead[home_lock[0] - 1] = true; deaths++ }
	:: d_step { deaths < DEATHS && CAN_DIE(home_lock[1]) -> dead[home_lock[1] - 1] = true; deaths++ }
#if HALTS > 0
	:: d_step { halts < HALTS && CAN_DIE(blocks_lock) -> halted[blocks_lock - 1] = true; halts++ }
	:: d_step { halts < HALTS && CAN_DIE(home_lock[0]) -> halted[home_lock[0] - 1] = true; halts++ }
	:: d_step { halts < HALTS && CAN_DIE(home_lock[1]) -> halted[home_lock[1] - 1] = true; halts++ }
#endif
	od
}
