import { isCredential, parseDescriptorKey } from '../policy/descriptor-key.ts'
import { isShownHeader } from '../policy/routes/planned-backend.ts'
import type { Bundle, BundleFormat } from '../policy/schema/bundle.ts'
import { DocumentNodes } from '../text/document-nodes.ts'

/** A pattern for credentials in the text of a bundle. */
export interface CredentialSpan {
  /** Its first character, behind a quote, and the one that follows its last. */
  readonly start: number
  readonly end: number
  readonly pattern: string
}

/** Whether a rule or a route matches credentials, such as `match: { bearer: … }`, or a backend gets one that is in the bundle. */
export function hasCredentials({ policies, backends = {}, routes = [] }: Pick<Bundle, 'policies' | 'backends' | 'routes'>): boolean {
  return (
    policies.some(({ spec: { rules } }) => rules.some(hasCredentialKey)) ||
    routes.some(hasCredentialKey) ||
    Object.values(backends).some(({ headers = {} }) => Object.entries(headers).some(([name, text]) => !isShownHeader(name, text)))
  )
}

function hasCredentialKey({ match }: { readonly match?: object | string | undefined }): boolean {
  return typeof match === 'object' && Object.keys(match).some(isCredentialKey)
}

/**
 * Where the text of a valid bundle, without a byte order mark, has the credentials that its rules and routes match, and those of its backends, in the order of the text. One that is written once and used through
 * aliases is found where it is written. What people have put into comments or `metadata` is not known.
 */
export function credentialsIn(text: string, format: BundleFormat): CredentialSpan[] {
  const document = new DocumentNodes(text, format)
  const found = new Map<number, CredentialSpan>()
  /** An alias may be used a thousand times. */
  const seen = new Set<number>()
  for (const match of matchesIn(document)) {
    if (seen.has(match)) continue
    seen.add(match)
    for (const { name, value } of document.members(match)) if (isCredentialKey(name)) notePatterns(document, value, found)
  }
  for (const headers of headersIn(document)) {
    if (seen.has(headers)) continue
    seen.add(headers)
    for (const { name, value } of document.members(headers)) {
      if (!isShownHeader(name, document.scalarText(document.resolved(value)))) notePatterns(document, value, found)
    }
  }
  return [...found.values()].sort((a, b) => a.start - b.start)
}

function isCredentialKey(key: string): boolean {
  const parsed = parseDescriptorKey(key)
  return parsed !== undefined && isCredential(parsed.text)
}

/** The objects in `backends.*.headers`. */
function* headersIn(document: DocumentNodes): Generator<number> {
  const backends = memberOf(document, 0, 'backends')
  if (backends === undefined) return
  for (const { value } of document.members(backends)) {
    const headers = memberOf(document, document.resolved(value), 'headers')
    if (headers !== undefined) yield headers
  }
}

/** The objects in `policies[].spec.rules[].match` and `routes[].match`. */
function* matchesIn(document: DocumentNodes): Generator<number> {
  for (const route of itemsOf(document, memberOf(document, 0, 'routes'))) {
    const match = memberOf(document, route, 'match')
    if (match !== undefined) yield match
  }
  for (const policy of itemsOf(document, memberOf(document, 0, 'policies')))
    for (const rule of itemsOf(document, memberOf(document, memberOf(document, policy, 'spec'), 'rules'))) {
      const match = memberOf(document, rule, 'match')
      if (match !== undefined) yield match
    }
}

function memberOf(document: DocumentNodes, object: number | undefined, name: string): number | undefined {
  if (object === undefined) return undefined
  for (const member of document.members(object)) if (member.name === name) return document.resolved(member.value)
  return undefined
}

function* itemsOf(document: DocumentNodes, list: number | undefined): Generator<number> {
  if (list === undefined || document.nodes[list]!.kind !== 'list') return
  for (const item of document.children(list)) yield document.resolved(item)
}

/** One pattern, or a list of them. */
function notePatterns(document: DocumentNodes, value: number, found: Map<number, CredentialSpan>): void {
  const resolved = document.resolved(value)
  const { kind, innerStart: start, innerEnd: end } = document.nodes[resolved]!
  if (kind === 'list') for (const item of document.children(resolved)) notePatterns(document, item, found)
  else if (kind === 'scalar' && end > start && !found.has(start)) found.set(start, { start, end, pattern: document.scalarText(resolved) })
}
