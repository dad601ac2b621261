import { show } from '../../policy/problem.ts'
import { ApiError } from './api-error.ts'

/** More than any request needs: a value for each key of a rule, and some names. */
const MAX_PARAMETERS = 100

/** The query of a target, with or without its `?`. Thousands of parameters would hold up the thread. */
export function parseQuery(text: string): URLSearchParams {
  let count = 1
  for (let at = text.indexOf('&'); at >= 0; at = text.indexOf('&', at + 1))
    if (++count > MAX_PARAMETERS) throw new ApiError('bad_request', `the URL has more than ${MAX_PARAMETERS} parameters`)
  return new URLSearchParams(text)
}

/** The parameters of a URL by name, of which each may come once. Refuses those that nobody would read. */
export function readQuery<Name extends string>(query: URLSearchParams, known: readonly Name[]): Partial<Record<Name, string>> {
  const read: Partial<Record<Name, string>> = {}
  for (const [name, value] of query) {
    if (!known.includes(name as Name)) {
      const expected = known.length === 0 ? 'expected none' : `expected ${known.join(', ')}`
      throw new ApiError('bad_request', `unknown parameter ${show(name)}; ${expected}`)
    }
    if (read[name as Name] !== undefined) throw new ApiError('bad_request', `${name} comes more than once`)
    read[name as Name] = value
  }
  return read
}

/** A whole number from 1 to `max`; `byDefault` where it is absent. */
export function readCount(name: string, text: string | undefined, byDefault: number, max: number): number {
  if (text === undefined) return byDefault
  const count = /^\d{1,9}$/.test(text) ? Number(text) : 0
  if (count < 1 || count > max) throw new ApiError('bad_request', `${name}: expected a whole number from 1 to ${max}, got ${show(text)}`)
  return count
}
