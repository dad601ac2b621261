import { parseArgs } from 'node:util'
import type { CallersJson, CallersRequest } from '../../admin/api/caller-types.ts'
import { readCallerValues, UsageProblem } from '../text/caller-values.ts'
import { type AdminCommand, JSON_OPTION } from './admin-command.ts'
import { callersText } from './caller-text.ts'
import { CALLER_HELP } from './help.ts'

const OPTIONS = { ...JSON_OPTION, policy: { type: 'string' } } as const

/** Values go into a body: a URL is logged by everything on its way, and they may be credentials. */
export const caller: AdminCommand = {
  name: 'caller',
  help: CALLER_HELP,
  read(args) {
    const { values, positionals } = parseArgs({ args, options: OPTIONS, allowPositionals: true })
    if (values.policy === '') throw new UsageProblem('--policy: expected the id of a policy')
    const asked = readCaller(positionals)
    const body: CallersRequest = { ...asked, ...(values.policy !== undefined && { policy: values.policy }) }
    const describe = (response: CallersJson): string => `${callersText(response, asked.value !== undefined)}${keyHint(asked, response)}`
    return { request: { method: 'POST', path: 'callers', body }, isJson: values.json, describe }
  },
}

/** A key as policies write it. Anything else before `=` belongs to a value: keys in base64 end with it. */
const KEY = /^(?:bearer|llm:model|(?:jwt|header|query|cookie|path|context|caller|ip|descriptor):[^=]+)=/i

function readCaller(args: readonly string[]): Pick<CallersRequest, 'values' | 'value'> {
  const [first, ...others] = args
  if (!first) throw new UsageProblem('expected KEY=VALUE, such as header:x-api-key=alice, or a value alone')
  if (others.length === 0 && !KEY.test(first)) return { value: first }
  const bare = args.findIndex((arg) => !KEY.test(arg))
  // The value itself may be a credential, so the message does not repeat it.
  if (bare >= 0)
    throw new UsageProblem(`expected KEY=VALUE for each of several values, such as header:x-api-key=alice; number ${bare + 1} has no key`)
  return { values: readCallerValues(args) }
}

/** `team=search` is a value alone, because many values contain an equals sign. */
function keyHint({ value }: Pick<CallersRequest, 'value'>, { rules, top }: CallersJson): string {
  const isFound = rules.length > 0 || (top !== null && top.rejected.length + top.nearest.length > 0)
  const name = /^([A-Za-z0-9._-]{1,64})=/.exec(value ?? '')?.[1]
  if (isFound || !value?.includes('=')) return ''
  const examples = name === undefined ? 'header:x-api-key=… and jwt:sub=… do' : `caller:${name}=…, header:${name}=… and jwt:${name}=… do`
  return `\nIf you meant KEY=VALUE: a key begins with its kind, as ${examples}.\n`
}
