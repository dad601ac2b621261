import { test } from 'vitest'
import { DEATHS, expectNothingLost } from '../support/workers/deaths.ts'

test(
  'workers that die under load, in every way, twenty in a row: nothing that was counted is lost',
  () => expectNothingLost(Array.from({ length: 4 }, () => DEATHS).flat()),
  600_000,
)
