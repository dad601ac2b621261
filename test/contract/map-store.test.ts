import { MapStore } from '../support/store/map-store.ts'
import { describeCounterStore } from './counter-store.ts'
import { describeGrowth } from './growth.ts'
import { describeHolds } from './holds.ts'
import { describeLimitChange } from './limit-change.ts'
import { describeOverdraft } from './overdraft.ts'
import { describeOverride } from './override.ts'
import { describeReset } from './reset.ts'
import { describeSettlement } from './settlement.ts'
import { describeWarnings } from './warnings.ts'

// The reference that the properties compare with keeps to the same contract.
const newStore = () => new MapStore()

describeCounterStore('MapStore', newStore)
describeLimitChange('MapStore', newStore)
describeGrowth('MapStore', newStore)
describeHolds('MapStore', newStore)
describeOverdraft('MapStore', newStore)
describeOverride('MapStore', newStore)
describeSettlement('MapStore', newStore)
describeReset('MapStore', newStore)
describeWarnings('MapStore', newStore)
