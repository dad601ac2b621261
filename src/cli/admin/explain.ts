import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import type { ExplainRequestJson, ExplanationJson } from '../../admin/api/types.ts'
import { printableText } from '../../text/printable.ts'
import { fieldBytes, UsageProblem } from '../text/caller-values.ts'
import { type AdminCommand, JSON_OPTION } from './admin-command.ts'
import { explainText } from './explain-text.ts'
import { EXPLAIN_HELP } from './help.ts'

const OPTIONS = {
  ...JSON_OPTION,
  request: { type: 'string', short: 'X' },
  host: { type: 'string' },
  header: { type: 'string', short: 'H', multiple: true },
  data: { type: 'string', short: 'd' },
} as const

export const explain: AdminCommand = {
  name: 'explain',
  help: EXPLAIN_HELP,
  read(args) {
    const { values, positionals } = parseArgs({ args, options: OPTIONS, allowPositionals: true })
    const { json, data, request: method = data === undefined ? 'GET' : 'POST' } = values
    const [target, ...surplus] = positionals
    if (!target || surplus.length > 0) throw new UsageProblem(`expected one URI, got ${positionals.length}`)
    const { uri, host } = splitTarget(target)
    const body: ExplainRequestJson = {
      method,
      uri,
      host: values.host ?? host,
      headers: readHeaders(values.header ?? []),
      body: data,
    }
    const name = printableText(`${method} ${uri}`)
    const describe = (response: ExplanationJson): string => explainText(name, response)
    return { request: { method: 'POST', path: 'explain', body }, isJson: json, describe }
  },
}

/** A complete URL, as copied from a browser, names the host, too. */
function splitTarget(target: string): { uri: string; host: string | undefined } {
  const [, authority, path] = /^https?:\/\/([^/?#]+)(.*)$/is.exec(target) ?? []
  if (authority === undefined) return { uri: target, host: undefined }
  const uri = path!.startsWith('/') ? path! : `/${path}`
  return { uri, host: authority.slice(authority.lastIndexOf('@') + 1) }
}

/** A name that is given several times gets a list of its values, in order. */
function readHeaders(args: readonly string[]): Record<string, string | string[]> {
  const headers = new Map<string, string[]>()
  for (const line of args.flatMap((arg) => (arg.startsWith('@') ? linesOf(arg.slice(1)) : [arg]))) {
    const end = line.indexOf(':')
    // The line is not repeated: what lacks a name is often a token.
    if (end < 1) throw new UsageProblem("-H: expected 'Name: value', or @FILE with such lines")
    const name = line.slice(0, end).trim().toLowerCase()
    headers.set(name, [...(headers.get(name) ?? []), fieldBytes(line.slice(end + 1).trim())])
  }
  return Object.fromEntries([...headers].map(([name, values]) => [name, values.length === 1 ? values[0]! : values]))
}

const STANDARD_INPUT = 0

/** Returns the lines of a file, or with `-` of the standard input: command lines are seen by everybody on the machine, and a credential must not be in one. */
function linesOf(path: string): string[] {
  try {
    return readFileSync(path === '-' ? STANDARD_INPUT : path, 'utf8')
      .split(/\r?\n/)
      .filter((line) => line.trim() !== '')
  } catch (error) {
    throw new UsageProblem(`-H: cannot read ${JSON.stringify(path)}: ${(error as Error).message}`)
  }
}
