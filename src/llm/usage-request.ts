import { asObject, parseJson } from './json.ts'

/** Longer options are left as they are: those that are known have some dozens of bytes. */
const MAX_OPTIONS_BYTES = 4096
/** The value behind a name: null, or an object without others in it. */
const OPTIONS = /^\s*:\s*(null|\{(?:[^{}"]|"(?:[^"\\]|\\.)*")*\})/
const NAME = 'include_usage'

/**
 * The paths of chat completions and completions, whose streams have a count only where a client asks for it. Model servers take the same bodies at
 * `/invocations`, as SageMaker calls them, and llama.cpp at Ollama's `/api/chat`.
 */
export function mayAskForUsage(path: string): boolean {
  return /\/(?:completions|invocations|api\/chat)\/?$/i.test(path)
}

/** A body that asks for the provider's count, and whether the client does not. 'unchanged': it cannot be made to ask. */
export type UsageRequest = { readonly bytes: Buffer; readonly isForClient: boolean } | 'unchanged'

/**
 * Has a request for a stream ask for the provider's count. `optionsAt`: where the name `stream_options` ends in the body, 0 where that is missing,
 * undefined where nobody can tell.
 */
export function withUsageRequest(body: Buffer, optionsAt: number | undefined): UsageRequest {
  if (optionsAt === undefined) return 'unchanged'
  if (optionsAt === 0) {
    const start = body.indexOf('{') + 1
    return { bytes: spliced(body, start, start, `"stream_options":{"${NAME}":true},`), isForClient: false }
  }
  // One letter a byte, so that lengths are those of the body.
  const [all, value] = OPTIONS.exec(body.toString('latin1', optionsAt, optionsAt + MAX_OPTIONS_BYTES)) ?? []
  if (all === undefined || value === undefined) return 'unchanged'
  const end = optionsAt + all.length
  const start = end - value.length
  const options = asObject(parseJson(body.toString('utf8', start, end))) ?? {}
  const asked = options[NAME] ?? false
  // Some servers take other values for true, and others refuse them.
  if (typeof asked !== 'boolean') return 'unchanged'
  const names = Object.keys(options)
  // In upper case, as Go compares names: to it, `ſ` is an `s`.
  const isInOtherCase = (name: string): boolean => name !== NAME && name.toUpperCase() === NAME.toUpperCase()
  if (asked && !names.some(isInOtherCase)) return { bytes: body, isForClient: true }
  const others = Object.fromEntries(names.filter((name) => !isInOtherCase(name)).map((name) => [name, options[name]]))
  return { bytes: spliced(body, start, end, JSON.stringify({ ...others, [NAME]: true })), isForClient: asked }
}

function spliced(body: Buffer, from: number, to: number, text: string): Buffer {
  return Buffer.concat([body.subarray(0, from), Buffer.from(text), body.subarray(to)])
}
