/** Longer options are left as they are: those that are known have some dozens of bytes. */
const MAX_OPTIONS_BYTES = 1024
/** The value behind a name: null, or an object without others in it. */
const OPTIONS = /^\s*:\s*(null(?![\w$])|\{(?:[^{}"]|"(?:[^"\\]|\\.)*")*\})/
const ASKING = '{"include_usage":true}'

/** The paths of chat completions and completions, whose streams have a count only where a client asks for it. */
export function mayAskForUsage(path: string): boolean {
  return path.endsWith('/completions')
}

/**
 * A request for a stream that asks for the provider's count, too. Undefined where the client asks for it itself, or where its options have another
 * form. `optionsAt`: where the name `stream_options` ends in the body, 0 where that is missing.
 */
export function withUsageRequest(body: Buffer, optionsAt: number): Buffer | undefined {
  if (optionsAt === 0) {
    const start = body.indexOf('{') + 1
    return spliced(body, start, start, `"stream_options":${ASKING},`)
  }
  // One letter a byte, so that lengths are those of the body.
  const [all, value] = OPTIONS.exec(body.toString('latin1', optionsAt, optionsAt + MAX_OPTIONS_BYTES)) ?? []
  if (all === undefined || value === undefined) return undefined
  const options = JSON.parse(value) as Record<string, unknown> | null
  if (options?.['include_usage'] === true) return undefined
  const end = optionsAt + all.length
  return spliced(body, end - value.length, end, JSON.stringify({ ...options, include_usage: true }))
}

function spliced(body: Buffer, from: number, to: number, text: string): Buffer {
  return Buffer.concat([body.subarray(0, from), Buffer.from(text, 'latin1'), body.subarray(to)])
}
