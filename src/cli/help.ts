import { SETTINGS, type Setting } from '../config.ts'

export const HELP = `edge: may this request go on?

Usage:
  edge serve [options]     start the service (edge serve --help lists the options)
  edge validate FILE...    check policy bundles: 0 all good, 1 a problem
  edge --version
  edge --help
`

export const SERVE_HELP = `Usage: edge serve [options]

Every option is an environment variable too; the option wins.

${settingLines()}

Signals: SIGHUP reloads the bundle, SIGTERM and SIGINT drain and stop, a second one stops at once.
`

export const VALIDATE_HELP = `Usage: edge validate FILE...

Checks policy bundles (JSON; YAML when the name ends in .yaml or .yml) and prints every problem with its path.
Exit status: 0 when all can be loaded (warnings are allowed), 1 otherwise.
`

function settingLines(): string {
  const rows = Object.values<Setting<unknown>>(SETTINGS).map((setting) => {
    const flag = setting.flag === undefined ? '(no option: a secret)' : `--${setting.flag} VALUE`
    const fallback = setting.fallback === undefined ? '' : ` [${setting.fallback}]`
    return { flag, env: setting.env, about: `${setting.about}${fallback}` }
  })
  const width = (pick: (row: (typeof rows)[number]) => string): number => Math.max(...rows.map((row) => pick(row).length))
  const flagWidth = width((row) => row.flag)
  const envWidth = width((row) => row.env)
  return rows.map((row) => `  ${row.flag.padEnd(flagWidth)}  ${row.env.padEnd(envWidth)}  ${row.about}`).join('\n')
}
