import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'
import { describeWith } from '../describe-with.ts'
import { faketimeLibrary } from './stepping-clock.ts'

type Part = 'redis-server' | 'libfaketime'

/** Tests that need a real Redis. */
export function describeWithRedis(name: string, body: () => void, ...more: readonly Part[]): void {
  const missing = (['redis-server', ...more] as const).filter((part) => !isInstalled(part))
  const complaint = `${missing.join(' and ')} not installed; on Debian: sh scripts/install-test-parts.sh`
  describeWith(missing.length === 0 ? undefined : complaint, name, body)
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
