import type { ExplainRequestJson } from '../../src/admin/api/types.ts'
import { typedValue } from '../caller-values.ts'
import { addressOf } from '../navigation.ts'

/** The fields of the form, as they were typed. */
export interface AskedRequest {
  readonly method: string
  readonly uri: string
  readonly host: string
  /** One line for each field, as `Name: value`. */
  readonly headers: string
  readonly body: string
}

/** One field of the form has a wrong value. */
export class FieldError extends Error {
  readonly field: keyof AskedRequest

  constructor(field: keyof AskedRequest, message: string) {
    super(message)
    this.field = field
  }
}

/** Returns the body of `POST explain`. */
export function explainBody({ method, uri, host, headers, body }: AskedRequest): ExplainRequestJson {
  return {
    method: method.trim(),
    uri: uri.trim(),
    ...(host.trim() !== '' && { host: host.trim() }),
    headers: headersObject(linesOf(headers)),
    ...(body !== '' && { body }),
  }
}

/** These fields are left out of links, because browsers keep addresses and people share them. */
const CREDENTIALS = /authorization|cookie|token|secret|password|api-?key/i

/** Returns a link to the form with this request, without its body and without fields that may be credentials. */
export function linkTo({ method, uri, host, headers }: AskedRequest): { readonly href: string; readonly leftOut: readonly string[] } {
  const lines = linesOf(headers)
  const kept = lines.filter(({ name }) => !CREDENTIALS.test(name))
  const leftOut = lines.filter(({ name }) => CREDENTIALS.test(name)).map(({ name }) => name)
  const text = kept.map(({ name, value }) => `${name}: ${value}`).join('\n')
  return { href: addressOf('explain', { method, uri, ...(host !== '' && { host }), ...(text !== '' && { headers: text }) }), leftOut }
}

export function requestIn(parameters: URLSearchParams): AskedRequest {
  const text = (name: string): string => parameters.get(name) ?? ''
  return { method: text('method') || 'GET', uri: text('uri'), host: text('host'), headers: text('headers'), body: '' }
}

interface HeaderLine {
  readonly name: string
  readonly value: string
}

function linesOf(headers: string): HeaderLine[] {
  const lines: HeaderLine[] = []
  for (const [i, line] of headers.split(/\r?\n/).entries()) {
    if (line.trim() === '') continue
    const colon = line.indexOf(':')
    if (colon < 1) throw new FieldError('headers', `line ${i + 1}: expected "Name: value"`)
    const name = line.slice(0, colon).trim()
    if (name === '__proto__') throw new FieldError('headers', `line ${i + 1}: a field of this name cannot be explained`)
    lines.push({ name, value: line.slice(colon + 1).trim() })
  }
  return lines
}

/** A field that occurs more than once gets a list of values. */
function headersObject(lines: readonly HeaderLine[]): Readonly<Record<string, string | readonly string[]>> {
  const values = new Map<string, string[]>()
  for (const { name, value } of lines) values.set(name, [...(values.get(name) ?? []), typedValue(`header:${name}`, value)])
  return Object.fromEntries(Array.from(values, ([name, list]) => [name, list.length === 1 ? list[0]! : list]))
}
