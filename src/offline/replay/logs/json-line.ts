import type { CallerVerdict } from '../../../request/caller.ts'
import { parseAddress } from '../../../text/address.ts'
import { numberMs, textMs } from './log-time.ts'
import { type LoggedRequest, WholeRequest } from './logged-request.ts'

type Members = Readonly<Record<string, unknown>>

/**
 * Reads a line of JSON: `{time,method,uri,host?,client?,headers?,context?,caller?,body?}`, or with nginx's names (`time_iso8601`, `request_method`,
 * `request_uri`, `remote_addr`, `http_<name>`). Other members are ignored. `line` is a latin1 string. If the line cannot be read, returns why.
 */
export function readJsonLine(line: string): LoggedRequest | string {
  const members = parsed(line)
  if (members === undefined) return 'it is not valid JSON'
  const timeMs = timeOf(members)
  if (Number.isNaN(timeMs)) return 'its time is missing or cannot be read'
  const isNginx = 'request_uri' in members || 'request_method' in members || 'request' in members
  const requestLine = isNginx ? nginxText(members['request'])?.split(' ') : undefined
  const method = text(members['method']) ?? nginxText(members['request_method']) ?? requestLine?.[0]
  const uri = nginxText(members['request_uri']) ?? (members['uri'] === '' ? '/' : text(members['uri'])) ?? requestLine?.[1]
  if (method === undefined || uri === undefined) return 'it has no request (method and uri)'
  const fields: string[] = []
  addFields(fields, members['headers'])
  addNginxFields(fields, members)
  const host = text(members['host']) ?? nginxText(members['http_host']) ?? ''
  const client = text(members['client']) ?? nginxText(members['remote_addr'])
  const peer = client !== undefined && parseAddress(client) !== undefined ? client : undefined
  const body = text(members['body'])
  const contexts = objectOf(members['context'])
  return new WholeRequest({
    timeMs,
    method,
    uri,
    host: host === '-' ? '' : host,
    peer,
    fields,
    body,
    caller: callerOf(members['caller']),
    contexts,
    size: line.length,
  })
}

/** Reads a caller as the decision log writes it. */
function callerOf(value: unknown): CallerVerdict | undefined {
  const caller = objectOf(value)
  if (caller === undefined) return undefined
  // Which problem it was makes no difference to rules.
  if (caller['problem'] !== undefined) return { problem: 'no_credential' }
  const labels = Object.entries(objectOf(caller['labels']) ?? {}).filter((pair): pair is [string, string] => typeof pair[1] === 'string')
  return { id: text(caller['id']) ?? '', labels: new Map(labels), claims: objectOf(caller['claims']) }
}

/**
 * nginx writes the bytes of a value as they came, so the latin1 string already has what a server sees. Our own lines encode such strings in
 * UTF-8, which is decoded first.
 */
function parsed(line: string): Members | undefined {
  const members = jsonMembers(line)
  if (members === undefined || !NON_ASCII.test(line) || 'request_method' in members || 'request_uri' in members) return members
  return jsonMembers(Buffer.from(line, 'latin1').toString('utf8'))
}

const NON_ASCII = /[\x80-\xff]/

function jsonMembers(line: string): Members | undefined {
  return objectOf(jsonValue(line) ?? (hasNginxEscapes(line) ? jsonValue(line.replace(NGINX_ESCAPE, '\\u00$1')) : undefined))
}

function objectOf(value: unknown): Members | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Members) : undefined
}

function jsonValue(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Without `escape=json`, nginx writes escapes that JSON does not know, and a backslash in a value becomes `\x5C`. */
const NGINX_ESCAPE = /\\x([0-9A-Fa-f]{2})/g

function hasNginxEscapes(line: string): boolean {
  return line.includes('\\x') && !line.includes('\\\\')
}

/** Returns the most precise of the times that the line has. */
function timeOf(members: Members): number {
  const value = members['msec'] ?? members['time'] ?? members['time_iso8601'] ?? members['time_local']
  if (typeof value === 'number') return numberMs(value)
  return typeof value === 'string' ? textMs(value) : Number.NaN
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

/** nginx writes a dash for an absent value. */
function nginxText(value: unknown): string | undefined {
  return value === '-' ? undefined : text(value)
}

function addFields(fields: string[], headers: unknown): void {
  for (const [name, value] of Object.entries(objectOf(headers) ?? {})) {
    if (typeof value === 'string') fields.push(name, value)
    else if (Array.isArray(value)) for (const line of value) if (typeof line === 'string') fields.push(name, line)
  }
}

function addNginxFields(fields: string[], members: Members): void {
  for (const name in members) {
    if (!name.startsWith('http_')) continue
    const value = nginxText(members[name])
    if (value !== undefined) fields.push(name.slice('http_'.length).replaceAll('_', '-'), value)
  }
}
