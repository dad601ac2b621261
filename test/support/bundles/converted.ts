import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { load } from 'js-yaml'
import type { TestContext } from 'vitest'
import { command, type Said } from '../service/command.ts'
import { scratchDirectory } from '../service/running.ts'

export const MESSAGING = `
domain: messaging
descriptors:
  - key: message_type
    value: marketing
    descriptors:
      - key: to_number
        rate_limit: { unit: day, requests_per_unit: 5 }
      - key: to_number
        value: 2065550100
        rate_limit: { name: our-own, unit: second, requests_per_unit: 10 }
  - key: to_number
    rate_limit: { unit: hour, requests_per_unit: 100 }
`

export async function converted(t: TestContext, files: Readonly<Record<string, string>>, ...args: readonly string[]): Promise<Said> {
  const directory = await scratchDirectory(t)
  const paths: string[] = []
  for (const [name, text] of Object.entries(files)) {
    paths.push(join(directory, name))
    await writeFile(paths.at(-1)!, text)
  }
  return command('convert', 'ratelimit', ...args, ...paths)
}

export interface PrintedRule {
  readonly name: string
  readonly match: Readonly<Record<string, unknown>>
}

export function rulesOf(stdout: string): PrintedRule[] {
  const { policies } = load(stdout) as { policies: { spec: { rules: PrintedRule[] } }[] }
  return policies.flatMap(({ spec }) => spec.rules)
}
