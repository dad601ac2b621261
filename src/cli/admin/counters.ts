import { parseArgs } from 'node:util'
import type { CountersJson } from '../../admin/api/types.ts'
import { type AdminCommand, JSON_OPTION } from './admin-command.ts'
import { readSubject } from './caller-values.ts'
import { countersText } from './counters-text.ts'
import { COUNTERS_HELP } from './help.ts'

/** The values go into a body: a URL is logged by everything on its way, and they may be credentials. */
export const counters: AdminCommand = {
  name: 'counters',
  help: COUNTERS_HELP,
  read(args) {
    const { values, positionals } = parseArgs({ args, options: JSON_OPTION, allowPositionals: true })
    const body = readSubject(positionals)
    const describe = (response: CountersJson): string => countersText(response, body.values)
    return { request: { method: 'POST', path: 'counters', body }, isJson: values.json, describe }
  },
}
