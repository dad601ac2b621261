import { EmbeddedStore, newEmbeddedStore } from '../../src/store/table/embedded-store.ts'
import { SharedTable } from '../../src/store/table/shared-table.ts'
import { newTableBuffer } from '../../src/store/table/table-layout.ts'
import { describeCounterStore } from './counter-store.ts'
import { describeGrowth } from './growth.ts'
import { describeHolds, describeSharedHolds } from './holds.ts'
import { describeLimitChange } from './limit-change.ts'
import { describeOverdraft } from './overdraft.ts'
import { describeOverride } from './override.ts'
import { describeReset, describeSharedReset } from './reset.ts'
import { describeSettlement } from './settlement.ts'
import { describeSharedWarnings, describeWarnings } from './warnings.ts'

const newStore = () => newEmbeddedStore(256 * 1024)

describeCounterStore('EmbeddedStore', newStore)
describeLimitChange('EmbeddedStore', newStore)
describeGrowth('EmbeddedStore', newStore)
describeHolds('EmbeddedStore', newStore)
describeOverdraft('EmbeddedStore', newStore)
describeOverride('EmbeddedStore', newStore)
describeSettlement('EmbeddedStore', newStore)
describeReset('EmbeddedStore', newStore)
describeWarnings('EmbeddedStore', newStore)
describeSharedReset('EmbeddedStore in two threads', twoThreads)
describeSharedHolds('EmbeddedStore in two threads', twoThreads)
describeSharedWarnings('EmbeddedStore in two threads', twoThreads)

function twoThreads(): [EmbeddedStore, EmbeddedStore] {
  const table = newTableBuffer(256 * 1024)
  return [new EmbeddedStore(new SharedTable(table, 1), [1, 2]), new EmbeddedStore(new SharedTable(table, 2), [1, 2])]
}
