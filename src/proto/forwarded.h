/* Whose request it is, when it came through proxies: X-Forwarded-For and Forwarded (RFC 7239). Pure functions. */
#ifndef SL_FORWARDED_H
#define SL_FORWARDED_H

#include "policy/address.h"
#include "policy/policy.h"

enum { SL_FORWARDED_HOPS_MAX = 100 }; /* proxies that are walked through; a chain that is longer ends there */

enum sl_forwarded_form {
	SL_FORWARDED_FOR,     /* X-Forwarded-For: 192.0.2.1, 10.0.0.1 */
	SL_FORWARDED_RFC7239, /* Forwarded: for=192.0.2.1;proto=https, for="[2001:db8::1]:4711" */
};

/* Finds the client by walking from the peer, whom the caller trusts, right to left: an entry is believed when whoever
 * stands to its right is one of the policy's trusted-proxies; the first that is not one itself is the client. Where all
 * are trusted it is the left-most. What is no address (junk, "unknown", an obfuscated name) ends the walk at the last
 * address that was one.
 *  lines    the values of all header lines of the name, in their order: together they are one list
 *  address  out: the client's, or untouched
 * Returns false where the nearest entry is no address, or there is none: then it is the peer itself that counts.
 * No allocation; O(bytes walked + hops * trusted networks). */
bool sl_forwarded_client(const struct sluice_bytes *lines, uint32_t count, enum sl_forwarded_form form,
                         const struct sluice_policy *policy, struct sl_address *address);

/* Takes the last element off a list, without white space around it; empty ones are passed over, as RFC 9110 5.6.1 says.
 * With `quotes`, commas between double quotes belong to the element. False, leaving *element untouched, when none is
 * left. O(bytes). */
bool sl_forwarded_last(struct sluice_bytes *list, bool quotes, struct sluice_bytes *element);

/* Reads the address of one element of Forwarded: its `for`, which must be there once, be written as RFC 7239 says (IPv6
 * in brackets, both it and a port only between quotes) and name an address. Untouched when false. */
bool sl_forwarded_node(struct sluice_bytes element, struct sl_address *address);

#endif
