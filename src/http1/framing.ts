import { fieldName } from './field-name.ts'

/** What a head says about where its request goes and where its body ends. */
export interface HeadFraming {
  /** Empty if there is none yet: a valid one never is. */
  host: string
  contentLength: number | undefined
  isChunked: boolean
}

const ONLY_CHUNKED = 'Transfer-Encoding must be chunked, once, in HTTP/1.1'

/** Notes a field, whose name is in lower case. Returns what is wrong with it, in words. */
export function noteFraming(framing: HeadFraming, name: string, value: string): string | undefined {
  switch (name) {
    case 'host':
      if (framing.host !== '') return 'Host is sent more than once'
      if (!isHost(value)) return 'Host is not valid'
      framing.host = value
      return undefined
    case 'content-length':
      if (framing.contentLength !== undefined || !/^\d{1,15}$/.test(value)) return 'Content-Length is not valid'
      framing.contentLength = Number(value)
      return undefined
    case 'transfer-encoding':
      if (framing.isChunked || value.toLowerCase() !== 'chunked') return ONLY_CHUNKED
      framing.isChunked = true
      return undefined
    default:
      return undefined
  }
}

/** Returns what is wrong with a whole head, in words, when all its fields have been noted. */
export function framingProblem({ host, contentLength, isChunked }: HeadFraming, version: string): string | undefined {
  if (version !== '1.1' && version !== '1.0') return `HTTP/${version} is not supported`
  if (host === '' && version === '1.1') return 'Host is missing'
  if (isChunked && version === '1.0') return ONLY_CHUNKED
  if (isChunked && contentLength !== undefined) return 'Content-Length and Transfer-Encoding exclude each other'
  return undefined
}

/** Reads the framing of a head strictly: wherever two readers could disagree about it, returns what is wrong, in words. */
export function headProblem(version: string, fields: readonly string[]): string | undefined {
  const framing: HeadFraming = { host: '', contentLength: undefined, isChunked: false }
  for (let i = 0; i < fields.length; i += 2) {
    const name = fieldName(fields[i]!)
    const problem = name.isPlainInRequest ? undefined : noteFraming(framing, name.lower, fields[i + 1]!)
    if (problem !== undefined) return problem
  }
  return framingProblem(framing, version)
}

// RFC 3986 3.2.2 and 3.2.3: a name or an address, and a port
const HOST = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9\-._~%!$&'()*+,;=]+)(?::\d{0,5})?$/

export function isHost(text: string): boolean {
  return HOST.test(text)
}
