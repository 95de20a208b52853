/* Slots of two homes of one page: claiming, publishing, evicting and freeing, and recovery, with owners that die
 * anywhere (docs/design/009-locking.md).
 *
 * Two buckets with a slot each. Keys 0 to 2 are at home in bucket 0, key 3 in bucket 1: what does not fit its home
 * spills into the other. A call charges a key; where there is no free slot it evicts, under the victim's home lock had
 * by trying. States are inline: a count, published by one store. The sketch is exact here. Nothing expires. Locks are
 * taken in one step, from the dead too (lock.pml). A wait is a guard, so a hang is an invalid end state.
 *
 * Checked:
 *   S1  answered <= count <= charged for every counter that is found or remembered: an old count of another key is
 *       never seen, a charge that was answered never lost
 *   S2  a key has at most one slot, and finds it: what has its tag is at home, or in a bucket of its home's spill bits
 *   S3  a lock that was free has no FRESH slot behind it, and all spill bits that it must have
 *   S4  answered <= QUOTA, and a call is denied only where answered + deaths >= QUOTA
 *   S5  every call of a live process ends
 * Negative variants: see test_models.py. */

#ifndef PROCESSES
#define PROCESSES 3
#endif
#ifndef ALIVE
#define ALIVE PROCESSES
#endif
#ifndef CALLS
#define CALLS 1
#endif
#ifndef DEATHS
#define DEATHS 2
#endif
#define KEYS 4
#define QUOTA 3

/* A tag: 0, or key + 1 and perhaps FRESH. */
#define FRESH 8
#define TAG(key) ((key) + 1)
#define KEY(tag) (((tag) & 7) - 1)
#define HOME(key) ((key) == 3)
#define IS(tag, key) (((tag) & 7) == TAG(key))
#define IS_OF(tag, h) ((tag) != 0 && HOME(KEY(tag)) == (h))

byte tag[2], state[2], home_lock[2];
bool spill[2]; /* of home h: has entries in bucket 1 - h */
byte sketch[KEYS];

/* Not of the arena. */
bool dead[PROCESSES];
byte answered[KEYS], charged[KEYS], deaths;

/* S3. */
inline check_home(h) {
	assert(!(IS_OF(tag[0], h) && tag[0] >= FRESH) && !(IS_OF(tag[1], h) && tag[1] >= FRESH));
	assert(!IS_OF(tag[1 - (h)], h) || spill[h])
}

#ifdef RECOVER_BY_SPILL
#define SEES(at, h) ((at) == (h) || spill[h])
#else
#define SEES(at, h) true /* a slot is claimed before its spill bit is set */
#endif

inline recover(h) {
	at = 0;
	do
	:: d_step { at < 2 && IS_OF(tag[at], h) && tag[at] >= FRESH && SEES(at, h) -> tag[at] = 0; at++ }
	:: atomic { at == 2 -> at = 0 } break
	:: else -> at++
	od;
	spill[h] = IS_OF(tag[1 - (h)], h)
}

inline lock_home(h) {
	if
	:: atomic { home_lock[h] == 0 -> home_lock[h] = me + 1; check_home(h) }
	:: atomic { home_lock[h] != 0 && dead[home_lock[h] - 1] -> home_lock[h] = me + 1 };
#ifndef NO_RECOVERY
		recover(h)
#endif
	fi
}

/* Other homes' claims and frees change no tag of ours: one step. */
inline find() {
	d_step {
		assert(IS(tag[0], key) + IS(tag[1], key) <= 1); /* S2 */
		if
		:: IS(tag[home], key) -> slot = home
		:: !IS(tag[home], key) && spill[home] && IS(tag[1 - home], key) -> slot = 1 - home
		:: else -> slot = 2
		fi;
		if
		:: slot < 2 -> count = state[slot]; assert(tag[slot] < FRESH)
		:: else -> count = sketch[key]
		fi;
		assert(answered[key] <= count && count <= charged[key]) /* S1 */
	}
}

inline claim_at(where) {
#ifdef NO_FRESH
	d_step { tag[where] == 0 -> tag[where] = TAG(key); slot = where };
#else
	d_step { tag[where] == 0 -> tag[where] = TAG(key) + FRESH; slot = where };
#endif
	state[slot] = 0;
	if
	:: slot != home -> spill[home] = true
	:: else
	fi
}

inline evict_locked() {
#ifndef NOTE_LATE
	sketch[KEY(seen)] = (sketch[KEY(seen)] > state[victim] -> sketch[KEY(seen)] : state[victim]);
#else
	at = state[victim];
#endif
	tag[victim] = 0;
#ifdef NOTE_LATE
	d_step { sketch[KEY(seen)] = (sketch[KEY(seen)] > at -> sketch[KEY(seen)] : at); at = 0 };
#endif
	spill[HOME(KEY(seen))] = IS_OF(tag[1 - HOME(KEY(seen))], HOME(KEY(seen)))
}

/* Either slot; what it seems to be is looked at again under its lock. */
inline evict() {
	if
	:: victim = 0
	:: victim = 1
	fi;
	seen = tag[victim];
	if
	:: seen == 0 || seen >= FRESH
	:: seen != 0 && seen < FRESH && HOME(KEY(seen)) == home -> evict_locked()
	:: seen != 0 && seen < FRESH && HOME(KEY(seen)) != home ->
		if
		:: atomic { home_lock[1 - home] == 0 -> home_lock[1 - home] = me + 1; check_home(1 - home) };
			if
#ifdef NO_RECHECK
			:: true -> evict_locked()
#else
			:: tag[victim] == seen -> evict_locked()
			:: tag[victim] != seen
#endif
			fi;
			home_lock[1 - home] = 0
#ifndef WAIT_TO_EVICT
		:: home_lock[1 - home] != 0
#endif
		fi
	fi;
	d_step { seen = 0; victim = 0 }
}

inline claim() {
	if
	:: claim_at(home)
	:: tag[home] != 0 ->
		if
		:: claim_at(1 - home)
		:: tag[1 - home] != 0
		fi
	fi
}

inline publish() {
	d_step { state[slot] = count + 1; charged[key]++ };
}

inline charge() {
	lock_home(home);
	find();
	if
	:: count >= QUOTA -> d_step { denied = true; assert(answered[key] + deaths >= QUOTA) } /* S4 */
	:: count < QUOTA && slot < 2 -> publish()
	:: count < QUOTA && slot == 2 ->
		claim();
		if
		:: slot == 2 -> evict(); claim()
		:: slot < 2
		fi;
		if
		:: slot == 2 -> denied = true /* no room */
		:: slot < 2 ->
#ifdef TAG_FIRST
			tag[slot] = TAG(key);
#endif
			publish();
			tag[slot] = TAG(key)
		fi
	fi;
	d_step {
		home_lock[home] = 0;
		if
		:: denied
		:: else -> answered[key]++; assert(answered[key] <= QUOTA) /* S4 */
		fi;
		key = 0; home = 0; slot = 0; count = 0; denied = false
	}
}

/* ALIVE callers before the first death; each death brings another. */
proctype caller(byte me) {
	byte key, home, slot, count, victim, seen, at, calls;
	bool denied;
endwait:
	me < ALIVE + deaths;
	{
		do
		:: calls < CALLS ->
			calls++;
			if
			:: key = 0
			:: key = 1
			:: key = 2
			:: d_step { key = 3; home = 1 }
			fi;
			charge()
		:: else -> break
		od
	} unless {
		d_step { dead[me] -> key = 0; home = 0; slot = 0; count = 0; victim = 0; seen = 0; at = 0; calls = 0;
			denied = false }
	}
}

#define CAN_DIE(owner) ((owner) != 0 && !dead[(owner) - 1])

init {
	byte p;
	atomic {
		tag[0] = TAG(0); state[0] = 1; answered[0] = 1; charged[0] = 1;
		tag[1] = TAG(1); state[1] = 2; answered[1] = 2; charged[1] = 2; spill[0] = true;
		do
		:: p < PROCESSES -> run caller(p); p++
		:: else -> break
		od;
		p = 0
	};
	/* The one who kills: anybody who has a lock, at any time. */
end:	do
	:: d_step { deaths < DEATHS && CAN_DIE(home_lock[0]) -> dead[home_lock[0] - 1] = true; deaths++ }
	:: d_step { deaths < DEATHS && CAN_DIE(home_lock[1]) -> dead[home_lock[1] - 1] = true; deaths++ }
	od
}
