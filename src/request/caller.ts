import type { Claims } from './bearer.ts'
import type { RequestView } from './view.ts'

/** A caller whose credential was verified. */
export interface VerifiedCaller {
  /** `<entry>:<sub>` of a token, `key:<id>` of an issued key. No entry is named `key` or has a colon in its name, so identities never collide. */
  readonly id: string
  /** The labels by name; `id` is not one of them. */
  readonly labels: ReadonlyMap<string, string>
  /** The claims of a token; undefined for an issued key. */
  readonly claims: Claims | undefined
  /** The fields that carried an issued key, in lower case. The proxy does not forward them. */
  readonly keyFields?: readonly string[] | undefined
}

/** Why nobody knows who sent a request. `explain` and the log show it, and clients do not see it. */
export type CallerProblem =
  /** The request has no credential that `callers` reads. */
  | 'no_credential'
  /** It has two that differ, or a field that carries one is repeated. */
  | 'two_credentials'
  /** The credential is neither a JWT nor an issued key in its form. */
  | 'malformed'
  /** No entry has the token's issuer. */
  | 'issuer'
  /** The entry does not accept the token's algorithm, type or critical fields. */
  | 'algorithm'
  /** The entry's key set has no such key, or no such key was issued. */
  | 'unknown_key'
  | 'signature'
  | 'expired'
  | 'not_yet_valid'
  | 'audience'
  /** A claim that is needed is missing or has the wrong type, such as `sub` or `exp`, or a subject or label is too long or has characters that nobody sees. */
  | 'claims'
  /** The key was issued, and revoked. */
  | 'revoked'
  /** The key set was never fetched, or it has no such key and cannot be fetched now. */
  | 'keys_unavailable'
  /** The client's address has used up its share of verifications or guesses. */
  | 'busy'

/** A request whose caller could not be verified. */
export interface UnknownCaller {
  readonly problem: CallerProblem
  /** The fields that carried what has the form of an issued key, such as one that was revoked, or that may have. They are not forwarded either. */
  readonly keyFields?: readonly string[] | undefined
}

export type CallerVerdict = VerifiedCaller | UnknownCaller

export function isVerified(verdict: CallerVerdict): verdict is VerifiedCaller {
  return !('problem' in verdict)
}

/** Finds out who sends a request, for a plan with `callers`. */
export interface CallerReader {
  /**
   * `addressOf` returns the client's address, for its share of the work, or of an IPv6 address the first one of its /64 network; undefined if it is unknown.
   * Reading it takes time, so a reader that remembers a token does not call it, and none calls it after it has returned. Returns a promise only while it
   * waits for a key set. Never throws or rejects.
   */
  read(view: RequestView, addressOf: () => string | undefined): CallerVerdict | Promise<CallerVerdict>
}
