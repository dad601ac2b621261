import { test } from 'vitest'
import { expectNothingLost } from '../support/workers/deaths.ts'

test('workers that die under load, in every way, fifty in a row: nothing that was counted is lost', () => expectNothingLost(10), 300_000)
