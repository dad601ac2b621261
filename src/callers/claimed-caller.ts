import { Patterns } from '../policy/patterns.ts'
import type { Callers, JwtEntry, LabelSource } from '../policy/schema/callers.ts'
import { type Claims, claimText } from '../request/bearer.ts'
import type { CallerVerdict } from './caller.ts'

/**
 * Returns the caller of a token with these claims, as if its signature, times and audience had been verified: what `edge test` decides by. The claim `iss`
 * may be left out if there is only one issuer.
 */
export function claimedCaller({ jwt = [] }: Callers, claims: Claims): CallerVerdict {
  const { iss, sub } = claims
  const entry = iss === undefined && jwt.length === 1 ? jwt[0] : jwt.find(({ issuer }) => issuer === iss)
  if (entry === undefined) return { problem: 'issuer' }
  if (typeof sub !== 'string' || sub === '') return { problem: 'claims' }
  return { id: `${entry.name}:${sub}`, labels: labelsOf(entry, claims), claims }
}

function labelsOf({ labels }: JwtEntry, claims: Claims): Map<string, string> {
  const found = new Map<string, string>()
  for (const [name, source] of Object.entries(labels)) {
    const label = labelOf(source, claims)
    if (label !== undefined) found.set(name, label)
  }
  return found
}

function labelOf({ claim, first, default: otherwise }: LabelSource, claims: Claims): string | undefined {
  const pattern = first === undefined ? undefined : new Patterns([first])
  const [label] = membersOf(claims, claim)
    .filter((member) => member !== '' && pattern?.cover(member) !== false)
    .sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
  return label ?? otherwise
}

/** The texts of a claim, which may be a list; a dotted name reaches into objects if no claim has exactly that name. */
function membersOf(claims: Claims, claim: string): string[] {
  const [, parents, last] = /^(.*)\.([^.]*)$/.exec(claim) ?? []
  let holder: unknown = claims
  let name = claim
  if (!Object.hasOwn(claims, claim) && parents !== undefined) {
    for (const step of parents.split('.')) holder = isRecord(holder) && Object.hasOwn(holder, step) ? holder[step] : undefined
    name = last!
  }
  if (!isRecord(holder) || !Object.hasOwn(holder, name)) return []
  const value = holder[name]
  if (Array.isArray(value)) return value.filter((member) => typeof member === 'string')
  const text = claimText({ value }, 'value', [])
  return text === undefined ? [] : [text]
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
