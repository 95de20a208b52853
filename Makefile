# Sluice: the front door. `make help` lists what can be asked for.
#
# Everything is built below one folder: build/, or build/<sanitizer> with SAN=, or any other with O=. Objects depend on
# a record of the compiler and its flags, so a changed CC, CFLAGS or SAN rebuilds what it must and nothing else.

# make's own default is "cc", which not every machine has: take the first compiler there is, unless one was named.
ifeq ($(origin CC),default)
CC := $(firstword $(foreach c,gcc clang cc,$(if $(shell command -v $c 2>/dev/null),$c)) gcc)
endif
PYTHON   ?= /usr/bin/python3
SAN      ?=
WERROR   ?=
PREFIX   ?= /usr/local
LIBDIR   ?= lib
DESTDIR  ?=
SECONDS  ?= 60
VERSION  := $(shell sed -n 's/^.define SLUICE_VERSION "\(.*\)"/\1/p' include/sluice.h)
SONAME   := libsluice.so.$(firstword $(subst ., ,$(VERSION)))

# One line a step; V=1 shows the commands.
Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-4s %s\n' $(1) $@)

comma := ,
B := $(or $(O),$(if $(SAN),build/$(subst $(comma),-,$(SAN)),build))

CPPFLAGS_ALL := -Iinclude -Isrc -I. -D_GNU_SOURCE $(CPPFLAGS)
# Under sanitizers a test needs to be neither fast nor stepped through: a report names functions and lines.
CFLAGS       ?= $(if $(SAN),-O1 -g1,-O2 -g)
# no-builtin-bcmp: clang turns memcmp() into bcmp(), which the core must not need.
CFLAGS_ALL   := -std=gnu11 -fPIC -fvisibility=hidden -fno-strict-aliasing -fno-builtin-bcmp -pthread -Wall -Wextra \
                -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla $(CFLAGS)
LDFLAGS_ALL  := -pthread $(LDFLAGS)
ifneq ($(SAN),)
CFLAGS_ALL   += -fsanitize=$(SAN) -fno-omit-frame-pointer -DSL_DEBUG \
                $(if $(findstring undefined,$(SAN)),-fno-sanitize-recover=undefined)
LDFLAGS_ALL  += -fsanitize=$(SAN)
endif
# Set by `make fuzz` and `make fuzz-fast`: coverage for libFuzzer in everything that a harness runs; the second has none
# of comparisons, which takes half of the time.
ifneq ($(FUZZING),)
CFLAGS_ALL   += -DSL_SMALL_ARENAS -DSL_DEBUG $(if $(filter fast,$(FUZZING)),\
                -fsanitize-coverage=inline-8bit-counters$(comma)pc-table,-fsanitize=fuzzer-no-link)
endif
WERROR_FLAG  := $(if $(filter-out 0,$(WERROR)),-Werror)

CORE_SRC := $(wildcard src/base/*.c src/algo/*.c src/store/*.c src/decide/*.c src/check/*.c)
LIB_SRC  := $(CORE_SRC) $(wildcard src/policy/*.c hosts/library/*.c\
              $(addprefix src/os/,clock.c map.c file.c process.c zone.c))
APP_SRC  := $(filter-out $(LIB_SRC) hosts/cli/main.c,\
              $(wildcard src/proto/*.c src/os/*.c hosts/admission/*.c hosts/files/*.c hosts/server/*/*.c \
              hosts/cli/*.c hosts/cli/*/*.c hosts/redis/script/*.c bindings/common/*.c))
# The module for Redis and Valkey. What of it knows no Redis is tested and fuzzed without one.
MODULE_SRC  := $(wildcard hosts/redis/*.c)
MODULE_FREE := $(patsubst %,hosts/redis/%.c,cells charge codec commit companion decide effect held hold load \
                 own_quota memory room shape slice tokens valid value)

# llhttp comes as C source with Debian's node-llhttp; it is compiled here, from where the package put it.
# Its warnings are not ours; the flags that harden a package, and name no folder in debugging symbols, are.
LLHTTP_DIR     ?= /usr/share/llhttp
LLHTTP_INCLUDE ?= /usr/share/include/llhttp
LLHTTP_OBJ     := $(addprefix $(B)/llhttp/,api.o http.o llhttp.o)

obj = $(patsubst %.c,$(B)/obj/%.o,$(1))
CORE_OBJ := $(call obj,$(CORE_SRC))
LIB_OBJ  := $(call obj,$(LIB_SRC))
APP_OBJ  := $(call obj,$(APP_SRC) $(MODULE_FREE)) $(LLHTTP_OBJ) $(B)/page/files.o $(B)/script/files.o
MODULE_OBJ := $(call obj,$(MODULE_SRC) $(wildcard src/base/*.c src/algo/*.c src/decide/*.c) src/os/zone.c \
              $(addprefix src/proto/,answer.c command.c command_fits.c command_words.c inspection.c \
              override_words.c own_quota.c throttle.c ticket.c))

LIB_LIBS  := -lyaml
APP_LIBS  := $(LIB_LIBS) -luv -lnghttp2 -ljansson -lssl -lcrypto -lz -llzma
# Envoy's messages as protobuf-c has them, for tests/model/rls_codec_test; without its packages that test is skipped.
PROTO_IN   := tests/e2e/clients
PROTO_STD  := /usr/include/google/protobuf/struct.proto
PROTO_HERE := $(and $(shell command -v protoc-c 2>/dev/null),$(wildcard $(PROTO_STD)),\
                $(wildcard /usr/include/protobuf-c/protobuf-c.h))
PROTO_C    := $(if $(PROTO_HERE),$(patsubst %,$(B)/proto/%.pb-c.c,rls health \
                $(addprefix google/protobuf/,duration struct wrappers)))

TEST_LIBS := $(APP_LIBS) -lcmocka -lsodium -lhiredis -lm $(if $(PROTO_HERE),-lprotobuf-c)

# A test is tests/{unit,model,race,crash}/NAME_test.c; what tests share are the other .c files of those folders. Two
# need a build in which the points at which a process may die, or stop, are marked (src/base/point.h): `make points`.
POINTS_SRC  := $(addprefix tests/crash/,points_test.c stops_test.c)
TEST_SRC    := $(wildcard tests/unit/*_test.c tests/model/*_test.c tests/race/*_test.c tests/crash/*_test.c)
TEST_SHARED := $(filter-out $(TEST_SRC),$(wildcard $(patsubst %,tests/%/*.c,unit model race crash)))
UNIT  := $(patsubst %.c,$(B)/%,$(wildcard tests/unit/*_test.c))
MODEL := $(patsubst %.c,$(B)/%,$(wildcard tests/model/*_test.c))
RACE  := $(patsubst %.c,$(B)/%,$(wildcard tests/race/*_test.c))
CRASH := $(patsubst %.c,$(B)/%,$(filter-out $(POINTS_SRC),$(wildcard tests/crash/*_test.c)))
POINTS := $(patsubst %.c,$(B)/%,$(POINTS_SRC))
SIM   := $(patsubst %.c,$(B)/%,$(wildcard tests/sim/*_test.c))
BENCH := $(patsubst %.c,$(B)/%,$(wildcard bench/*.c))
FUZZ  := $(patsubst %.c,$(B)/%,$(wildcard fuzz/*.c))

.PHONY: all
all: $(B)/sluice $(B)/libsluice.a $(B)/libsluice.so $(B)/libsluice-core.a $(B)/sluice-module.so

# ---- what objects depend on besides their sources ------------------------------------------------------------------

# Flags are compared when the Makefile is read. -Werror is no part of the record: it changes no object.
FLAGS_NOW := $(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) $(LDFLAGS_ALL)
ifneq ($(filter-out clean help deps,$(or $(MAKECMDGOALS),all)),)
$(shell mkdir -p $(B); echo '$(FLAGS_NOW)' | cmp -s - $(B)/flags || echo '$(FLAGS_NOW)' >$(B)/flags)
endif

# A missing package is named before the compiler stumbles over its header. The core needs none.
$(B)/deps-found:
	@tools/deps --check build && touch $@
$(B)/test-deps-found:
	@tools/deps --check unit && touch $@
$(call obj,$(filter-out $(CORE_SRC),$(LIB_SRC))) $(APP_OBJ) $(call obj,hosts/cli/main.c): | $(B)/deps-found
$(call obj,$(TEST_SRC) $(TEST_SHARED)): | $(B)/test-deps-found

$(B)/obj/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(CPPFLAGS_ALL) -I$(LLHTTP_INCLUDE) $(CFLAGS_ALL) $(WERROR_FLAG) -MMD -MP -c $< -o $@

$(LLHTTP_OBJ): $(B)/llhttp/%.o: $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) -I$(LLHTTP_INCLUDE) -O2 -g -fPIC $(CFLAGS) -w $(if $(SAN),-fsanitize=$(SAN)) -c $(LLHTTP_DIR)/$*.c -o $@

# ---- the dashboard -------------------------------------------------------------------------------------------------

# Its files are written into the program. uPlot, which draws its charts, comes from npm by the lock file. Without npm,
# or with CHARTS=0, the page is built all the same and says that it has no charts. When npm is found later, or has
# failed the last time, the charts are tried again.
PAGE      := hosts/server/page
PAGE_SRC  := $(wildcard $(addprefix $(PAGE)/*.,css js svg))
NPM       := $(if $(filter 0,$(CHARTS)),,$(shell command -v npm 2>/dev/null))
PAGE_ALL   = $(PAGE_SRC) $(B)/page/uplot.js $(B)/page/uplot.css
PAGE_PAIRS = /=$(PAGE)/index.html /v1/openapi.json=docs/openapi.json $(foreach f,$(PAGE_ALL),/dashboard/$(notdir $f)=$f)
ifneq ($(filter-out clean help deps,$(or $(MAKECMDGOALS),all)),)
$(shell mkdir -p $(B)/page; cd $(B)/page; [ -e charts-missing ] && [ '$(NPM)' ] && rm -f npm-found; \
	echo '$(NPM)' | cmp -s - npm-found || echo '$(NPM)' >npm-found)
endif

$(B)/page/uplot.js: tools/charts $(PAGE)/package.json $(PAGE)/package-lock.json $(B)/page/npm-found
	$(call say,NPM)
	$(Q)tools/charts '$(NPM)' $(PAGE) $(@D)
$(B)/page/uplot.css: $(B)/page/uplot.js ;
$(B)/page/files.c: tools/embed $(PAGE)/index.html docs/openapi.json $(PAGE_ALL)
	$(call say,GEN)
	$(Q)tools/embed $@ $(PAGE_PAIRS)
$(B)/page/files.o: $(B)/page/files.c hosts/server/http/page.h $(B)/flags
	$(call say,CC)
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) $(WERROR_FLAG) -c $< -o $@

# ---- the script for Redis --------------------------------------------------------------------------------------------

# Lua, joined: a Functions library and a text for EVALSHA, each also with AT allowed; all but the library with AT are in
# the program.
SCRIPT_SRC := tools/script $(wildcard hosts/redis/script/*.lua)
SCRIPTS    := $(addprefix $(B)/,sluice.lua sluice-eval.lua sluice-client-time.lua sluice-eval-client-time.lua)
all: $(SCRIPTS)

$(SCRIPTS): $(B)/%.lua: $(SCRIPT_SRC) include/sluice.h
	@mkdir -p $(@D)
	$(call say,GEN)
	$(Q)tools/script $(if $(findstring eval,$*),eval,library) $(VERSION) \
		$(if $(findstring client-time,$*),--client-time) >$@.part && mv -f $@.part $@
$(B)/script/files.c: tools/script $(addprefix $(B)/,sluice.lua sluice-eval.lua sluice-eval-client-time.lua)
	@mkdir -p $(@D)
	$(call say,GEN)
	$(Q)tools/script embed $@ $(filter %.lua,$^)
$(B)/script/files.o: $(B)/script/files.c hosts/redis/script/script.h $(B)/flags
	$(call say,CC)
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) $(WERROR_FLAG) -c $< -o $@

# ---- libraries and programs ----------------------------------------------------------------------------------------

# Written beside and moved into place, so that nobody links a half-written archive.
define archive
$(call say,AR)
$(Q)rm -f $@.part && ar rcs $@.part $(filter %.o,$^) && mv -f $@.part $@
endef

$(B)/libsluice-core.a: $(CORE_OBJ)
	$(archive)
$(B)/libsluice.a: $(LIB_OBJ)
	$(archive)
$(B)/libapp.a: $(LIB_OBJ) $(APP_OBJ)
	$(archive)
$(B)/libtests.a: $(call obj,$(TEST_SHARED)) $(PROTO_C:.c=.o)
	$(archive)
$(B)/libsluice.so: $(LIB_OBJ)
	$(call say,LD)
	$(Q)$(CC) -shared -Wl,-soname,$(SONAME) $(if $(SAN),,-Wl,-z,defs) $(CFLAGS_ALL) $(LDFLAGS_ALL) $^ $(LIB_LIBS) -o $@
# A sanitizer's runtime would have to be in the server that loads it.
$(B)/sluice-module.so: $(MODULE_OBJ) hosts/redis/exports.map
	$(call say,LD)
	$(Q)$(CC) -shared -Wl,--version-script=hosts/redis/exports.map $(if $(SAN),,-Wl$(comma)-z$(comma)defs) \
		$(CFLAGS_ALL) $(LDFLAGS_ALL) $(MODULE_OBJ) -o $@
$(B)/sluice: $(call obj,hosts/cli/main.c) $(B)/libapp.a
	$(call say,LD)
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) $^ $(APP_LIBS) -o $@

# ---- tests, benchmarks, fuzzers ------------------------------------------------------------------------------------

$(UNIT) $(MODEL) $(RACE) $(CRASH): $(B)/%: $(B)/obj/%.o $(B)/libtests.a $(B)/libapp.a
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)$(CC) $(CFLAGS_ALL) $< $(B)/libtests.a $(B)/libapp.a $(LDFLAGS_ALL) -Wl,--as-needed $(TEST_LIBS) -o $@

# Of all that stores do, and no more: the whole tree would be built anew for these two.
$(POINTS): $(B)/%: $(B)/obj/%.o $(call obj,$(filter tests/crash/%,$(TEST_SHARED)) tests/model/dice.c) \
           $(B)/libsluice.a
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)$(CC) $(CFLAGS_ALL) $^ $(LDFLAGS_ALL) $(LIB_LIBS) -lcmocka -o $@

# The simulated fleet has the whole module in it, but for its clock. PLANTED: objects with a mistake, to be found.
SIM_OBJ := $(call obj,$(filter-out tests/sim/%_test.c,$(wildcard tests/sim/*.c)) \
           $(filter-out hosts/redis/clock.c $(MODULE_FREE),$(MODULE_SRC)))
$(SIM): $(B)/%: $(B)/obj/%.o $(SIM_OBJ) $(B)/libtests.a $(B)/libapp.a $(PLANTED)
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)$(CC) $(CFLAGS_ALL) $< $(PLANTED) $(filter-out $(PLANTED_OBJ),$(SIM_OBJ)) $(B)/libtests.a $(B)/libapp.a \
		$(LDFLAGS_ALL) -Wl,--as-needed $(TEST_LIBS) -o $(or $(PLANTED_OUT),$@)

ifneq ($(PROTO_C),)
$(firstword $(PROTO_C)): $(PROTO_IN)/rls.proto $(PROTO_IN)/health.proto
	@mkdir -p $(@D)
	$(call say,GEN)
	$(Q)protoc-c --c_out=$(@D) -I$(PROTO_IN) -I/usr/include $(^F) $(patsubst %,google/protobuf/%.proto,duration struct \
		wrappers) && touch $(PROTO_C)
$(wordlist 2,9,$(PROTO_C)): $(firstword $(PROTO_C)) ;
$(PROTO_C:.c=.o): %.o: %.c $(B)/flags
	$(call say,CC)
	$(Q)$(CC) -I$(B)/proto $(CFLAGS_ALL) -w -c $< -o $@
$(call obj,tests/model/rls_codec_test.c): CPPFLAGS_ALL += -isystem $(B)/proto
$(call obj,tests/model/rls_codec_test.c): $(PROTO_C)
endif

$(BENCH): $(B)/%: $(B)/obj/%.o $(B)/libapp.a
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)$(CC) $(CFLAGS_ALL) $< $(B)/libapp.a $(LDFLAGS_ALL) -Wl,--as-needed $(APP_LIBS) -lm -o $@

# The program with calls that can be made to fail, by tests/faults: all that our own code makes.
FAULTS := $(addprefix $(B)/tests/faults/,sluice embed)
$(B)/tests/faults/sluice: $(call obj,hosts/cli/main.c)
$(B)/tests/faults/embed: $(call obj,tests/faults/embed.c)
$(FAULTS): $(call obj,tests/faults/faults.c) $(B)/libapp.a
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)nm $(call obj,tests/faults/faults.c) | sed -n 's/^.* T __wrap_/-Wl,--wrap=/p' >$@-wrapped
	$(Q)$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) $(filter-out %.a,$^) $(filter %.a,$^) @$@-wrapped $(APP_LIBS) -o $@
.PHONY: faults
faults: $(FAULTS) ## the programs of tests/faults

# Harnesses need the whole tree built by clang with coverage: a make of its own, below build/fuzz.
ifneq ($(FUZZING),)
# What a harness says of the system (__wrap_NAME) takes the place of it.
$(FUZZ): $(B)/%: $(B)/obj/%.o $(B)/libapp.a
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)nm $(filter %.o,$^) | sed -n 's/^.* T __wrap_/-Wl,--wrap=/p' >$@.wrapped
	$(Q)$(CC) $(CFLAGS_ALL) -fsanitize=fuzzer $(filter %.o,$^) @$@.wrapped $(B)/libapp.a $(LDFLAGS_ALL) \
		-Wl,--as-needed $(APP_LIBS) -o $@
$(B)/fuzz/session: $(call obj,$(wildcard fuzz/session/*.c))
.PHONY: fuzzers
fuzzers: $(FUZZ)
endif
.PHONY: fuzz
fuzz: ## build the libFuzzer harnesses of fuzz/ (needs clang) into build/fuzz/fuzz/
	$(MAKE) --no-print-directory O=build/fuzz CC=clang SAN=address,undefined FUZZING=1 fuzzers
.PHONY: fuzz-fast
fuzz-fast: ## the same without sanitizers, into build/fuzz-fast/fuzz/: some times faster, for hours of looking about
	$(MAKE) --no-print-directory O=build/fuzz-fast CC=clang FUZZING=fast fuzzers
.PHONY: corpus
corpus: fuzz ## merge what fuzzers have found into fuzz/corpus: tools/corpus
	tools/corpus merge

.PHONY: tests benches
tests: $(UNIT) $(MODEL) $(RACE) $(CRASH) $(SIM)
benches: $(BENCH)

# What tools/ctests.py compiles and links with, for what measures the tests.
.PHONY: words
words:
	@printf '%s\n' 'CC=$(CC)' 'CPPFLAGS=$(CPPFLAGS_ALL) -I$(LLHTTP_INCLUDE)' 'CFLAGS=$(CFLAGS_ALL)' \
		'LDFLAGS=$(LDFLAGS_ALL)' 'TEST_LIBS=$(TEST_LIBS)' 'SOURCES=$(LIB_SRC) $(APP_SRC) $(MODULE_FREE)' \
		'NODE_CPPFLAGS=$(NODE_CPPFLAGS)' 'PYTHON_CPPFLAGS=$(PYTHON_CPPFLAGS)'

ifneq ($(POINTED),)
.PHONY: pointed
pointed: $(POINTS)
endif
.PHONY: points
points: ## build the tests that kill, and stop, at every marked point into build/points
	$(MAKE) --no-print-directory O=build/points CPPFLAGS=-DSL_POINTS POINTED=1 pointed

.PHONY: test
test: ## install what tests need, build, run everything; ends "N passed, N failed". SAN=: the C tests under it
	tools/deps test
	@CC='$(CC)' $(PYTHON) tests/run $(if $(SAN),--san $(SAN))

.PHONY: soak
soak: ## models, races, crashes and fuzzers with new seeds for about SECONDS= (60) in all
	tools/deps packages
	@CC='$(CC)' $(PYTHON) tests/run --soak $(SECONDS)

.PHONY: bench
bench: ## measure beside what memory allows and beside redis-server: bench/run.py
	tools/deps bench
	$(MAKE) --no-print-directory -j2 all benches nginx
	BENCH_BUILD='$(B)' $(PYTHON) bench/run.py

.PHONY: tidy
tidy: $(B)/libsluice-core.a $(B)/libsluice.so $(B)/sluice $(B)/sluice-module.so ## the rules of the house: tools/tidy
	$(PYTHON) tools/tidy --core $(B)/libsluice-core.a --shared $(B)/libsluice.so --objects $(B)/obj

.PHONY: analyze
analyze: ## what cppcheck says of src and hosts, less what was judged: tools/analyze
	tools/deps test
	tools/analyze

# ---- bindings --------------------------------------------------------------------------------------------------------

# For Node: Node-API needs its headers, which come with node. Linked out of an archive that names its members by their
# paths, so that the linker tells which sources the package needs.
NODE_HEADERS ?= $(firstword $(wildcard $(patsubst %,%/node_api.h,\
                  $(dir $(shell command -v node))../include/node /usr/include/node /usr/include/nodejs/src)))
NODE_SRC     := $(wildcard bindings/node/native/*.c)
NODE_ADDON   := $(B)/bindings/node/sluice.node
# Only there: all other objects need no header of Node's.
NODE_CPPFLAGS = $(if $(NODE_HEADERS),-isystem $(patsubst %/,%,$(dir $(NODE_HEADERS))))
$(call obj,$(NODE_SRC)): CPPFLAGS_ALL += $(NODE_CPPFLAGS)

$(NODE_ADDON): $(call obj,$(NODE_SRC)) $(LIB_OBJ) $(APP_OBJ)
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)rm -f $(@D)/all.a && ar rcsT $(@D)/all.a $(LIB_OBJ) $(APP_OBJ)
	$(Q)$(CC) -shared $(CFLAGS_ALL) $(LDFLAGS_ALL) $(call obj,$(NODE_SRC)) $(@D)/all.a -Wl,-Bstatic $(LIB_LIBS) \
		-Wl,-Bdynamic -Wl,--exclude-libs,ALL -Wl,--gc-sections -Wl,-z,nodelete -Wl,--trace -o $@ >$(@D)/linked

.PHONY: node-package
node-package: $(NODE_ADDON)
	$(Q)bindings/node/scripts/pack $(B)/bindings $(NODE_ADDON) $(<D)/linked $(B)/obj

# The library with the limiter of bindings/common. libyaml goes along where its archive is there: so a wheel needs
# nothing but a C library.
BINDING_OBJ  := $(LIB_OBJ) $(call obj,$(wildcard bindings/common/*.c) $(addprefix hosts/admission/,admission.c ids.c \
                stagger.c) $(addprefix src/proto/,answer.c command.c command_attributes.c command_fits.c \
                command_words.c forwarded.c headers.c ticket.c))
BINDING_LIBS := $(if $(wildcard $(shell $(CC) -print-file-name=libyaml.a 2>/dev/null)),-l:libyaml.a,$(LIB_LIBS))
$(B)/libsluice-binding.a: $(BINDING_OBJ)
	$(archive)

# One extension for every Python from 3.9 on. Only the symbol by which it is loaded is seen from outside.
PYTHON_INCLUDE := $(shell $(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("include"))' 2>/dev/null)
PYTHON_SRC     := $(wildcard bindings/python/src/*.c)
PYTHON_EXT     := $(B)/bindings/python/_core.abi3.so
PYTHON_FILES   := $(wildcard bindings/python/README.md bindings/python/*.py \
                  $(addprefix bindings/python/sluice/*,.py .pyi /*.py /*.pyi .typed))
PYTHON_CPPFLAGS = -isystem $(PYTHON_INCLUDE)
$(call obj,$(PYTHON_SRC)): CPPFLAGS_ALL += $(PYTHON_CPPFLAGS)

$(PYTHON_EXT): $(call obj,$(PYTHON_SRC)) $(B)/libsluice-binding.a bindings/python/exports.map
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)$(CC) -shared -Wl,--version-script=bindings/python/exports.map $(CFLAGS_ALL) $(LDFLAGS_ALL) \
		$(call obj,$(PYTHON_SRC)) $(B)/libsluice-binding.a $(BINDING_LIBS) -o $@

.PHONY: python-package
python-package: $(PYTHON_EXT) $(PYTHON_FILES)
	$(Q)$(PYTHON) bindings/python/wheel.py $(PYTHON_EXT) $(VERSION) $(B)/bindings
	$(Q)$(PYTHON) bindings/python/sdist.py $(VERSION) $(B)/obj $(B)/bindings $(call obj,$(PYTHON_SRC)) $(BINDING_OBJ)

.PHONY: bindings
bindings: node-package python-package ## packages for Node and Python into build/bindings/

# ---- the module for nginx --------------------------------------------------------------------------------------------

# Built by nginx' own configure from its sources, where Debian's nginx-dev puts them or tools/deps has unpacked them:
# NGINX_SRC= names others, of the nginx that is to load it. What of the module knows no nginx is in an archive.
NGINX_SRC   ?= $(firstword $(wildcard /usr/share/nginx/src build/nginx-dev/usr/share/nginx/src))
NGINX_FREE  := $(addprefix hosts/nginx/,decide.c ticket.c)
NGINX_OBJ   := $(LIB_OBJ) $(call obj,$(NGINX_FREE) $(wildcard hosts/admission/*.c) \
               $(addprefix hosts/files/,denied_files.c quota_files.c) \
               $(addprefix src/proto/,headers.c http_text.c json_put.c problem.c template.c ticket.c))
NGINX_CFLAGS := $(CPPFLAGS) $(CFLAGS) $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -DSL_DEBUG)
NGINX_MODULE := $(B)/nginx/ngx_http_sluice_module.so
NGINX_FACING := $(filter-out $(NGINX_FREE),$(wildcard hosts/nginx/*.c hosts/nginx/*.h)) hosts/nginx/exports.map

$(B)/libsluice-nginx.a: $(NGINX_OBJ)
	$(archive)

# Sanitizers of an archive that was built with them are asked of nginx' build as well.
$(B)/nginx/src/objs/Makefile: hosts/nginx/config Makefile
	@[ '$(NGINX_SRC)' ] || { \
		echo 'make nginx: nginx-dev is missing: tools/deps nginx, or NGINX_SRC=FOLDER' >&2; exit 2; }
	$(call say,CONF)
	$(Q)rm -rf $(B)/nginx/src && mkdir -p $(B)/nginx && cp -r $(NGINX_SRC) $(B)/nginx/src
	$(Q)cd $(B)/nginx/src && SLUICE_BUILD=$(abspath $(B)) $(CURDIR)/hosts/nginx/configure \
		--with-cc='$(CC)' --with-cc-opt='$(NGINX_CFLAGS)' --with-ld-opt='$(LDFLAGS_ALL)' \
		--add-dynamic-module=$(CURDIR)/hosts/nginx >../configured 2>&1 || { tail -n 5 ../configured; exit 1; }
$(NGINX_MODULE): $(B)/nginx/src/objs/Makefile $(NGINX_FACING) $(B)/libsluice-nginx.a
	$(call say,NGX)
	$(Q)$(MAKE) --no-print-directory -s -C $(B)/nginx/src -f objs/Makefile modules
	$(Q)cp $(B)/nginx/src/objs/$(@F) $@

.PHONY: nginx
nginx: $(NGINX_MODULE) ## build/nginx/ngx_http_sluice_module.so: limits inside nginx (needs nginx-dev)

# ---- a release -----------------------------------------------------------------------------------------------------

# All of it from one commit, with that commit's time in place of today's, so that two builds give the same bytes.
RELEASE := $(B)/release
# libuv's archive has a name of its own in Debian
STATIC_LIBS := $(patsubst -luv,-l:libuv_a.a,$(APP_LIBS)) -ldl

# One file that needs no library of the machine it runs on. glibc warns of names that it looks up by plug-ins: files and
# DNS are in it, and those are all that is looked up.
$(B)/sluice-static: $(call obj,hosts/cli/main.c) $(B)/libapp.a
	$(call say,LD)
	$(Q)$(CC) -static $(CFLAGS_ALL) $(LDFLAGS_ALL) -Wl,--build-id=none -s $^ $(STATIC_LIBS) -o $@ 2>$@.log || \
		{ cat $@.log; exit 1; }

.PHONY: static
static: $(B)/sluice-static ## build/sluice-static: the program, with all its libraries in it

.PHONY: release
release: ## build/release: source, Debian packages, static program, image, SBOM, checksums; KEY= signs them
	tools/deps release
	rm -rf $(RELEASE)
	mkdir -p $(RELEASE)
	$(MAKE) --no-print-directory -j2 O=$(B)/released CFLAGS='-O2 -g -ffile-prefix-map=$(CURDIR)=.' \
		$(B)/released/sluice-static $(B)/released/page/uplot.js
	packaging/source $(VERSION) $(B)/released/page $(RELEASE)/sluice-$(VERSION).tar.gz
	packaging/deb $(RELEASE)/sluice-$(VERSION).tar.gz $(RELEASE)
	install -m 755 $(B)/released/sluice-static $(RELEASE)/sluice-$(VERSION)-linux-$(shell uname -m)
	packaging/image $(B)/released/sluice-static $(VERSION) $(RELEASE)/sluice-$(VERSION)-image.tar
	packaging/sbom $(VERSION) $(PAGE)/package-lock.json $(RELEASE)/sluice-$(VERSION).spdx.json
	packaging/sign $(RELEASE) $(KEY)

.PHONY: site
site: ## build/pages/site: the documents as static pages, with a search
	tools/deps site
	tools/site $(B)/pages

# ---- for people ----------------------------------------------------------------------------------------------------

.PHONY: run
run: ## install what is missing, build, serve examples/sluice.yaml, print what to type next
	tools/deps run
	$(MAKE) --no-print-directory -j2 $(B)/sluice
	@tools/next
	$(B)/sluice serve -c examples/sluice.yaml

.PHONY: deps
deps: ## install what building needs
	tools/deps run

# All that `make install` puts below PREFIX; the folders are ours alone. `make uninstall` removes just these. Libraries
# go to LIBDIR of it, which is another where a system keeps those of several machines: lib/x86_64-linux-gnu.
DOC       := share/doc/sluice
MAN       := $(wildcard docs/man/*.1 docs/man/*.5)
COMPLETIONS := $(addprefix share/,bash-completion/completions/sluice zsh/site-functions/_sluice \
               fish/vendor_completions.d/sluice.fish)
INSTALLED := bin/sluice include/sluice.h $(addprefix $(LIBDIR)/,libsluice.a libsluice.so $(SONAME) \
             libsluice.so.$(VERSION) pkgconfig/sluice.pc sluice) share/sluice $(DOC) \
             $(addprefix lib/systemd/system/sluice.,service socket) \
             $(foreach m,$(MAN),share/man/man$(subst .,,$(suffix $m))/$(notdir $m)) $(COMPLETIONS)

# Programs find a shared library through the loader's cache. A package (DESTDIR) leaves that to its own scripts.
loader = $(if $(DESTDIR),,@PATH="$$PATH:/usr/sbin:/sbin"; ldconfig 2>/dev/null; $(1))
loads  = ldconfig -p 2>/dev/null | grep -q ' => $(PREFIX)/$(LIBDIR)/$(SONAME)$$' || \
         echo 'note: the loader does not look into $(PREFIX)/$(LIBDIR): run ldconfig as root, or set LD_LIBRARY_PATH'

.PHONY: install
install: all ## into DESTDIR/PREFIX (/usr/local): program, libraries, documents, units, completions
	install -d $(addprefix $(DESTDIR)$(PREFIX)/,bin include $(LIBDIR)/pkgconfig $(LIBDIR)/sluice lib/systemd/system \
		share/sluice share/man/man1 share/man/man5 $(addprefix $(DOC)/docs/,design guides images man) $(DOC)/include)
	install -m 755 $(B)/sluice $(DESTDIR)$(PREFIX)/bin/sluice
	install -m 644 include/sluice.h $(DESTDIR)$(PREFIX)/include/sluice.h
	install -m 644 $(B)/libsluice.a $(DESTDIR)$(PREFIX)/$(LIBDIR)/libsluice.a
	install -m 755 $(B)/libsluice.so $(DESTDIR)$(PREFIX)/$(LIBDIR)/libsluice.so.$(VERSION)
	ln -sf libsluice.so.$(VERSION) $(DESTDIR)$(PREFIX)/$(LIBDIR)/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(PREFIX)/$(LIBDIR)/libsluice.so
	install -m 755 $(B)/sluice-module.so $(DESTDIR)$(PREFIX)/$(LIBDIR)/sluice/sluice-module.so
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@VERSION@|$(VERSION)|' \
		-e 's|@LIBS@|$(LIB_LIBS)|' sluice.pc.in >$(DESTDIR)$(PREFIX)/$(LIBDIR)/pkgconfig/sluice.pc
	install -m 644 $(SCRIPTS) $(DESTDIR)$(PREFIX)/share/sluice/
	install -m 644 LICENSE README.md ARCHITECTURE.md CONTRIBUTING.md CHANGELOG.md $(DESTDIR)$(PREFIX)/$(DOC)/
	install -m 644 $(wildcard docs/*.md docs/*.json) $(DESTDIR)$(PREFIX)/$(DOC)/docs/
	install -m 644 $(wildcard docs/design/*.md) $(DESTDIR)$(PREFIX)/$(DOC)/docs/design/
	install -m 644 $(wildcard docs/guides/*.md) $(DESTDIR)$(PREFIX)/$(DOC)/docs/guides/
	install -m 644 $(wildcard docs/images/*) $(DESTDIR)$(PREFIX)/$(DOC)/docs/images/
	install -m 644 $(MAN) $(DESTDIR)$(PREFIX)/$(DOC)/docs/man/
	ln -sf ../../../../include/sluice.h $(DESTDIR)$(PREFIX)/$(DOC)/include/sluice.h
	cp -r --no-preserve=all examples $(DESTDIR)$(PREFIX)/$(DOC)/
	for file in $(wildcard bindings/*/README.md bindings/common/client/*.json bindings/node/doors/index.d.ts); do \
		install -D -m 644 $$file $(DESTDIR)$(PREFIX)/$(DOC)/$$file; done
	install -m 644 $(filter %.1,$(MAN)) $(DESTDIR)$(PREFIX)/share/man/man1/
	install -m 644 $(filter %.5,$(MAN)) $(DESTDIR)$(PREFIX)/share/man/man5/
	sed 's|@PREFIX@|$(PREFIX)|' systemd/sluice.service.in >$(DESTDIR)$(PREFIX)/lib/systemd/system/sluice.service
	install -m 644 systemd/sluice.socket $(DESTDIR)$(PREFIX)/lib/systemd/system/
	install -d $(dir $(addprefix $(DESTDIR)$(PREFIX)/,$(COMPLETIONS)))
	$(B)/sluice completion bash >$(DESTDIR)$(PREFIX)/$(word 1,$(COMPLETIONS))
	$(B)/sluice completion zsh >$(DESTDIR)$(PREFIX)/$(word 2,$(COMPLETIONS))
	$(B)/sluice completion fish >$(DESTDIR)$(PREFIX)/$(word 3,$(COMPLETIONS))
	$(call loader,$(loads))

.PHONY: uninstall
uninstall: ## remove what `make install` put into DESTDIR/PREFIX; counters, policies and logs stay
	rm -rf $(addprefix $(DESTDIR)$(PREFIX)/,$(INSTALLED))
	$(call loader,true)

.PHONY: clean
clean: ## remove build/
	rm -rf build

.PHONY: help
help: ## this list
	@echo 'Sluice $(VERSION). make [target] [CC=gcc|clang] [SAN=address|undefined|thread] [O=folder] [WERROR=1] [V=1]'
	@echo '  (none)      build/: sluice, libsluice.a, .so, sluice-module.so, sluice.lua, sluice-eval.lua'
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/\1|\2/p' Makefile | \
	while IFS='|' read -r target text; do printf '  %-11s %s\n' "$$target" "$$text"; done

ALL_OBJ := $(LIB_OBJ) $(APP_OBJ) $(MODULE_OBJ) \
           $(call obj,$(NGINX_FREE)) \
           $(call obj,hosts/cli/main.c $(TEST_SRC) $(TEST_SHARED) $(wildcard tests/sim/*.c) $(NODE_SRC) $(PYTHON_SRC)) \
           $(patsubst $(B)/%,$(B)/obj/%.o,$(BENCH) $(FUZZ))
.SECONDARY: $(ALL_OBJ)
-include $(shell find $(B)/obj -name '*.d' 2>/dev/null)
