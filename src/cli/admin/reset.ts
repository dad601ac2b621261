import { parseArgs } from 'node:util'
import type { CountersJson, ResetRequest } from '../../admin/api/types.ts'
import { type AdminCommand, JSON_OPTION } from './admin-command.ts'
import { readSubject } from './caller-values.ts'
import { countersText } from './counters-text.ts'
import { RESET_HELP } from './help.ts'
import { reasonFlag } from './reason.ts'

export const reset: AdminCommand = {
  name: 'reset',
  help: RESET_HELP,
  read(args) {
    const options = { ...JSON_OPTION, reason: { type: 'string' } } as const
    const { values, positionals } = parseArgs({ args, options, allowPositionals: true })
    const body = { ...readSubject(positionals), reason: reasonFlag(values.reason) } satisfies ResetRequest
    const describe = (response: CountersJson): string =>
      `Reset. Other instances of a fleet follow within 2 s.\n\n${countersText(response, body.values)}`
    return { request: { method: 'POST', path: 'counters/reset', body }, isJson: values.json, describe }
  },
}
