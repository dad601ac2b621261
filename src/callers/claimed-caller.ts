import type { Callers } from '../policy/schema/callers.ts'
import type { Claims } from '../request/bearer.ts'
import type { CallerVerdict } from '../request/caller.ts'
import { IssuerEntry } from './jwt/issuer-entry.ts'

/**
 * Returns the caller of a token with these claims, as if its signature, times and audience had been verified: what `edge test` decides by. The claim `iss`
 * may be left out if there is only one issuer.
 */
export function claimedCaller({ jwt = [] }: Callers, claims: Claims): CallerVerdict {
  const { iss } = claims
  const found = iss === undefined && jwt.length === 1 ? jwt[0] : jwt.find(({ issuer }) => issuer === iss)
  if (found === undefined) return { problem: 'issuer' }
  const entry = new IssuerEntry(found)
  const caller = entry.namesSomebody(claims) ? entry.callerOf({ payload: claims, payloadText: JSON.stringify(claims) }) : undefined
  return caller ?? { problem: 'claims' }
}
