import { parseArgs } from 'node:util'
import { type AdminCommand, JSON_OPTION } from './admin-command.ts'
import { STATUS_HELP } from './help.ts'
import { statusText } from './status-text.ts'

export const status: AdminCommand = {
  name: 'status',
  help: STATUS_HELP,
  read(args) {
    const { values } = parseArgs({ args, options: JSON_OPTION })
    return { request: { method: 'GET', path: 'status' }, isJson: values.json, describe: statusText }
  },
}
