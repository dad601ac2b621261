import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'
import { describe, test } from 'vitest'
import { faketimeLibrary } from './stepping-clock.ts'

type Part = 'redis-server' | 'libfaketime'

/** Tests that need a real Redis. Without one they are skipped, and say so; in CI they fail. */
export function describeWithRedis(name: string, body: () => void, ...more: readonly Part[]): void {
  const missing = (['redis-server', ...more] as const).filter((part) => !isInstalled(part))
  if (missing.length === 0) return void describe(name, body)
  const reason = `${missing.join(' and ')} not installed; on Debian: sh scripts/install-test-parts.sh`
  if (process.env['CI']) {
    describe(name, () => {
      test('has all its parts', () => {
        throw new Error(reason)
      })
    })
    return
  }
  process.stderr.write(`\nSKIPPED: "${name}": ${reason}\n`)
  describe.skip(name, body)
}

function isInstalled(part: Part): boolean {
  return part === 'libfaketime' ? faketimeLibrary() !== undefined : isOnPath(part)
}

function isOnPath(program: string): boolean {
  return (process.env['PATH'] ?? '').split(delimiter).some((folder) => isExecutable(join(folder, program)))
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
