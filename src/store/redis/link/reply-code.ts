/** The first word of an error reply, such as OOM. Before Redis 7, an error inside a script follows a sentence about the script. */
export function replyCode(message: string): string {
  const [, inScript] = /^ERR Error running script.*: -?([A-Z]{2,}) /s.exec(message) ?? []
  return inScript ?? /^[A-Z]+/.exec(message)?.[0] ?? 'ERR'
}
