import { type HeaderTemplate, parseHeaderTemplate } from '../../secrets/header-template.ts'
import { foldedName } from '../../text/formats.ts'
import type { BackendConfig, BackendsConfig } from '../schema/backends.ts'

/** A backend that routes may name. */
export interface PlannedBackend {
  readonly name: string
  readonly url: URL
  /** The path of its URL, without a slash at its end; empty if the URL has none. */
  readonly basePath: string
  readonly headers: readonly PlannedHeader[]
  /** Undefined if the setting applies. */
  readonly headersTimeoutMs: number | undefined
  /** Whether it gets the fields by which clients say who they are. */
  readonly forwardsCredentials: boolean
  /** Whether requests carry a credential of the backend's own, so that 401, 402, 403 and 429 are about that one, not about the client's. */
  readonly hasCredential: boolean
}

/** A header field that replaces the client's. */
interface PlannedHeader {
  /** In lower case. */
  readonly name: string
  readonly parts: HeaderTemplate
}

/** What the server needs to know of a backend before its bundle becomes active. */
export interface BackendEntry {
  readonly name: string
  readonly url: string
}

export function planBackends(backends: BackendsConfig = {}): ReadonlyMap<string, PlannedBackend> {
  return new Map(Object.entries(backends).map(([name, config]) => [name, Object.freeze(planBackend(name, config))]))
}

export function backendEntries(backends: BackendsConfig = {}): BackendEntry[] {
  return Object.entries(backends).map(([name, { url }]) => ({ name, url }))
}

function planBackend(name: string, config: BackendConfig): PlannedBackend {
  const { url: text, headers = {}, headers_timeout_seconds: timeoutS, forward_credentials: forwardsCredentials = true } = config
  const url = new URL(text)
  const planned = Object.entries(headers).map(([field, value]) => ({ name: field.toLowerCase(), parts: parseHeaderTemplate(value)! }))
  return {
    name,
    url,
    basePath: url.pathname.replace(/\/$/, ''),
    headers: planned,
    headersTimeoutMs: timeoutS === undefined ? undefined : Math.round(timeoutS * 1000),
    forwardsCredentials,
    hasCredential: hasCredential(headers),
  }
}

/** Whether one of the header fields is a credential, or has a secret in it. */
export function hasCredential(headers: NonNullable<BackendConfig['headers']>): boolean {
  return Object.entries(headers).some(([field, text]) => parseHeaderTemplate(text)!.names.length > 0 || isCredentialField(field))
}

const CREDENTIAL_FIELD = /^(?:proxy-)?authorization$|^cookie$|(?:^|-)(?:auth|key|apikey|token|secret|password)$/

/** Whether a header field is one that carries credentials, as far as its name tells: `authorization`, `x-api-key`, `api-key` and the like. */
export function isCredentialField(name: string): boolean {
  return CREDENTIAL_FIELD.test(foldedName(name.toLowerCase()))
}

/** A scheme and secrets: nothing in such a text is secret itself. */
const NAMED_SECRET = /^(?:[A-Za-z]{1,16} )?\{[A-Z][A-Z0-9_]*\}$/

/** Whether a header text in a bundle may be shown: it refers to a secret, or its field carries no credentials. */
export function isShownHeader(name: string, text: string): boolean {
  return NAMED_SECRET.test(text) || !isCredentialField(name)
}
