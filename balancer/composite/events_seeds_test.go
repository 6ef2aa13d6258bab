package composite

// What the settings of a cluster may be, besides a target of the channel and a
// connect timeout of a second.
const (
	evOwn      = 1      // a target of its own
	evOther    = 2      // and another one
	evNew      = 1 << 2 // another config of the child policy
	evSwitch   = 2 << 2 // another child policy
	evWaitNot  = 1 << 4 // no connect timeout
	evWaitLong = 2 << 4 // one of 10 s
	evLazy     = 1 << 6
	evSlowBack = 1 << 7 // a failbackDelay of 30 s
)

// eventSeeds are sequences that are known to matter.
var eventSeeds = map[string][]byte{
	"nothing":                               {},
	"both connect":                          {evAgain, evResolver | evA | evReady, evResolver | evB | evReady, evProbe, evCurrent | evA | evReady, evProbe, evCurrent | evB | evReady, evProbe},
	"connect timeout":                       {evAgain, evResolver | evA | evReady, evTime | 3<<4, evProbe, evTime, evProbe, evTime, evProbe, evCurrent | evA | evConnecting, evProbe, evCurrent | evA | evReady, evProbe, evCurrent | evA | evConnecting, evProbe, evTime | 4<<4, evProbe},
	"connect timeout changes":               {evSettings | evA, evOwn | evWaitLong, evResolver | evA | evReady, evTime | 9<<4, evProbe, evSettings | evA, evOwn, evProbe, evSettings | evA, evOwn | evWaitNot, evProbe, evSettings | evA, evOwn | evWaitLong, evProbe},
	"failure lasts until READY":             {evAgain, evResolver | evA | evReady, evCurrent | evA | evFailure, evProbe, evCurrent | evA | evConnecting, evProbe, evCurrent | evA | evIdle, evProbe, evCurrent | evA | evReady, evCurrent | evA | evConnecting, evProbe},
	"child that is slow to replace another": {evAgain, evResolver | evA | evReady, evCurrent | evA | evReady, evSettings | evA, evOwn | evSwitch, evProbe, evPending | evA | evConnecting, evTime | 5<<4, evProbe, evPending | evA | evReady, evProbe},
	"child that fails to replace another":   {evAgain, evResolver | evA | evReady, evCurrent | evA | evReady, evSettings | evA, evOwn | evSwitch, evPending | evA | evFailure, evProbe, evCurrent | evA | evReady, evProbe, evCurrent | evA | evFailure, evProbe, evCurrent | evA | evReady, evProbe},
	"child that refuses its endpoints is replaced at once":  {evAgain, evResolver | evA | evReady, evCurrent | evA | evReady, evHabits | evA, 1 << 7, evResolver | evA | evReady, evHabits | evA, 0, evSettings | evA, evOwn | evSwitch, evProbe, evPending | evA | evReady, evProbe},
	"child that is replaced before it has replaced another": {evAgain, evResolver | evA | evReady, evCurrent | evA | evReady, evSettings | evA, evOwn | evSwitch, evSettings | evA, evOwn, evProbe, evReport | evA | evReady, 1 << 4, evProbe, evPending | evA | evReady, evProbe, evReport | evA | evFailure, 2 << 4, evProbe},
	"child that is replaced when there are no endpoints":    {evHabits | evA, 7, evAgain, evResolver | evA | evReady, evSettings | evA, evOwn | evSwitch, evProbe, evHabits | evA, 0, evSettings | evA, evOwn, evResolver | evA | evFailure, evProbe},
	"another config of a child":                             {evAgain, evResolver | evA | evReady, evCurrent | evA | evReady, evSettings | evA, evOwn | evNew, evProbe, evHabits | evA, 1 << 7, evSettings | evA, evOwn, evProbe},
	"endpoints are refused":                                 {evAgain, evHabits | evA, 1 << 7, evResolver | evA | evReady, evCurrent | evA | evReady, evProbe, evHabits | evA, 0, evResolver | evA | evReady, evProbe},
	"endpoints come and go":                                 {evHabits | evA, 7, evAgain, evResolver | evA | evReady, evProbe, evResolver | evA | evFailure, evProbe, evResolver | evA | evIdle, evProbe, evResolver | evA | evReady, evProbe},
	"resolving fails":                                       {evAgain, evResolver | evA | evIdle, evProbe, evTime | 5<<4, evResolver | evA | evReady, evProbe, evResolver | evA | evIdle, evProbe},
	"another target":                                        {evHabits | evA, 7, evAgain, evResolver | evA | evReady, evSettings | evA, evOther, evProbe, evResolver | evA | evIdle, evProbe, evResolver | evA | evFailure, evProbe, evResolver | evA | evReady, evProbe},
	"another target that resolves at once":                  {evHabits | evA, 7, evBuild | evA | evReady, evAgain, evProbe, evBuild | evA | evIdle, evSettings | evA, evOther, evProbe, evSettings | evA, 0, evProbe, evSettings | evA, evOwn, evProbe},
	"lazy":                                                  {evHabits | evA, 2 << 3, evBuild | evA | evReady, evSettings | evA, evOwn | evLazy, evTime | 10<<4, evProbe, evCurrent | evA | evReady, evProbe, evTime | 12<<4, evProbe, evTime | 13<<4, evTime | 11<<4, evAgain, evProbe, evTime | 4<<4, evProbe, evCurrent | evA | evReady, evCurrent | evA | evIdle, evTime, evProbe, evTime | 14<<4, evSettings | evA, evOwn, evProbe},
	"lazy without a connect timeout":                        {evBuild | evA | evReady, evSettings | evA, evOwn | evLazy | evWaitNot, evCurrent | evB | evReady, evProbe, evCurrent | evA | evReady, evProbe, evCurrent | evA | evIdle, evTime, evProbe},
	"lazy, of the channel's endpoints":                      {evSettings | evA, evLazy, evChannel, 1, evProbe, evCurrent | evA | evReady, evProbe, evTime | 14<<4, evChannel, 2, evProbe, evCall},
	"lazy child that gives up":                              {evHabits | evA, 1 << 3, evBuild | evA | evReady, evSettings | evA, evOwn | evLazy, evProbe, evCurrent | evA | evFailure, evProbe, evCurrent | evA | evIdle, evProbe, evTime | 4<<4, evProbe},
	"lazy that sleeps with an error":                        {evSettings | evA, evOwn | evLazy, evProbe, evResolver | evA | evIdle, evProbe, evTime | 14<<4, evSettings | evA, evOther | evLazy, evProbe},
	"the channel connects":                                  {evSettings | evA | 2<<6, evOwn | evLazy, evSettings | evB, evOwn | evLazy, evCall, evProbe, evResolver | evA | evReady, evCurrent | evA | evIdle, evCall, evProbe},
	"the channel connects before there are endpoints":       {evAgain, evCall, evResolver | evA | evReady, evCurrent | evA | evIdle, evResolver | evA | evReady, evProbe, evTime | 4<<4, evProbe},
	"failback":                 {evSettings | evA, evOwn | evSlowBack, evResolver | evA | evReady, evResolver | evB | evReady, evCurrent | evA | evReady, evCurrent | evB | evReady, evProbe, evCurrent | evA | evFailure, evProbe, evCurrent | evA | evReady, evProbe, evTime | 7<<4, evCurrent | evA | evConnecting, evProbe, evCurrent | evA | evReady, evTime | 8<<4, evProbe, evTime, evTime, evProbe},
	"failback to the only one": {evSettings | evA, evOwn | evSlowBack, evResolver | evA | evReady, evCurrent | evA | evReady, evCurrent | evA | evFailure, evCurrent | evA | evReady, evProbe, evTime | 4<<4, evProbe, evCurrent | evA | evConnecting, evProbe, evReport | evA | evReady, 2, evProbe, evReport | evA | evReady, 3, evProbe},
	"lists":                    {evHabits | evA, 7, evHabits | evB, 7, evHabits | evC, 7, evBuild | evA | evReady, evBuild | evB | evReady, evBuild | evC | evReady, evList, 3, evProbe, evList, 4, evProbe, evList, 8, evProbe, evList, 6, evProbe, evList, 5, evProbe, evList, 9, evProbe, evList, 15, evProbe},
	"tags":                     {evHabits | evA, 7, evHabits | evB, 7, evSettings | evA | 2<<6, 0, evChannel | 1<<4, 0, evProbe, evChannel | 1<<4, 1, evProbe, evSettings | evB, 0, evProbe, evChannel, 1 << 2, evProbe, evCall | 1<<4, evProbe, evChannel, 5, evCall | 1<<4, evProbe},
	"IDLE child that connects when it is picked from": {evAgain, evResolver | evA | evReady, evCurrent | evA | evReady, evCurrent | evA | evIdle, evTime | 5<<4, evAgain, evProbe, evTime | 4<<4, evProbe, evCurrent | evA | evConnecting, evProbe},
	"IDLE child that connects when it is asked":       {evHabits | evA, 1 << 3, evAgain, evResolver | evA | evReady, evCurrent | evA | evReady, evCurrent | evA | evIdle, evProbe, evTime | 4<<4, evProbe, evHabits | evA, 4 | 2<<3, evAgain, evResolver | evA | evReady, evProbe},
	"failed child that is IDLE":                       {evAgain, evResolver | evA | evReady, evCurrent | evA | evFailure, evCurrent | evA | evIdle, evProbe, evReport | evA | evIdle, 1, evProbe, evReport | evA | evIdle, 2, evProbe, evResolver | evA | evReady, evProbe},
	"pickers of all kinds":                            {evAgain, evResolver | evA | evReady, evResolver | evB | evReady, evCurrent | evB | evReady, evReport | evA | evReady, 1, evProbe, evReport | evA | evReady, 2, evProbe, evReport | evA | evReady, 3, evProbe, evReport | evA | evConnecting, 1, evProbe, evReport | evA | evConnecting, 2, evProbe, evReport | evA | evFailure, 3, evProbe},
	"all have failed":                                 {evPolicy | 8<<4, evResolver | evA | evReady, evCurrent | evA | evFailure, evResolver | evB | evIdle, evProbe, evProbe | 1<<4, evPolicy, evProbe, evCurrent | evA | evFailure, evProbe, evConn | evA | evFailure, evProbe, evResolver | evA | evIdle, evProbe},
	"past the end of the list":                        {evPolicy | 1<<4, evPick | 3<<4, evPolicy | 2<<4, evPick | 3<<4, evPick | 4<<4, evPolicy, evPick | 3<<4},
	"only the own slot":                               {evPolicy | 4<<4, evResolver | evA | evReady, evCurrent | evA | evFailure, evProbe, evPolicy, evProbe},
	"connections":                                     {evAgain, evResolver | evA | evReady, evConn | evA | evReady, evConn | evA | evIdle, evConn | evA | evFailure, evTime | 4<<4, evProbe, evCall | 4<<4, evSettings | evA, 0, evCall | 4<<4, evConn | evA | evFailure},
	"errors that the resolver's make":                 {evHabits | evA, 1 << 5, evAgain, evResolver | evA | evReady, evResolver | evA | evIdle, evProbe, evHabits | evA, 2 << 5, evResolver | evA | evIdle, evProbe},
	"a burst":                                         {evHabits | evA, 5, evBuild | evA | evReady, evAgain, evProbe, evHabits | evA, 6, evResolver | evA | evReady, evProbe},
	"closed":                                          {evBuild | evA | evReady, evAgain, evCall | 2<<4, evReport | evA | evReady, 0, evProbe, evTime | 15<<4, evConn | evA | evFailure, evCall | 12<<4},
	"closed at once":                                  {evCall | 2<<4, evAgain, evProbe},
	"closed while a child replaces another":           {evBuild | evA | evReady, evAgain, evCurrent | evA | evReady, evSettings | evA, evOwn | evSwitch, evCall | 2<<4, evReport | evA | evReady, 0, evReport | evA | evReady, 1 << 4},
	"a cluster that is removed and comes back":        {evBuild | evA | evReady, evAgain, evCurrent | evA | evReady, evList, 5, evReport | evA | evFailure, 0, evProbe, evList, 1, evProbe, evReport | evA | evReady, 1 << 4, evProbe},
}
